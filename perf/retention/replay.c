/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replays a trace of spans against the page heap under each rule, and prints what each one costs.
 *
 *   salloc-retention [--curve RULE] < TRACE
 *
 * First three lines with seconds of CPU time: the optimum of interchangeable pages at the price of
 * whole hugepages (optimum.h), which no rule can reach where spans leave holes; foresight
 * (foresight.h); and the cost of free memory that is never more and never less than slack. Then for
 * each rule a line: name; cost; of that, memory that stayed free, and touches; peak of backed MiB;
 * mean of free backed MiB; refaults in MiB; seconds of the trace. --curve: seconds, MiB in use and
 * MiB backed, ten times a second.
 *
 * Each rule runs in a process of its own, because the page heap is one for a process.
 */
#include "alloc/base/bits.h"
#include "alloc/policy/optimum.h"
#include "pagemap/span.h"
#include "perf/retention/foresight.h"
#include "perf/retention/heap.h"
#include "perf/retention/rules.h"
#include "perf/retention/spans_format.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define MS           1000000ull
#define TICK_NS      (500 * MS)
#define CURVE_NS     (100 * MS)
#define PLACES       (1ul << 28) /* pages that the places of a trace may lie apart */
#define PAGES_IN_MIB 128.0
#define START_NS     1000000000ull
/* Ticks of the program that come sooner after the last one are not passed to rules. */
#define TICK_LEAST_NS (TICK_NS - 100 * MS)

static unsigned char *trace;
static size_t trace_bytes, at;

static struct sa_span **spans; /* by place: those in use */
static uint64_t place_before;  /* see spans_format.h */

static struct moment now;
static uint64_t last_tick_ns, next_tick_ns, next_curve_ns;
static bool curve;
static struct sa_optimum optimum = {.hold = SA_HOLD_NS, .touch = SA_PRICE_WHOLE_NS};
static double slack_page_s; /* what slack alone may hold */

static void __attribute__((noreturn)) bad(const char *what)
{
    fprintf(stderr, "salloc-retention: %s at byte %zu\n", what, at);
    exit(1);
}

static void read_trace(void)
{
    size_t room = 1 << 20, n;

    trace = malloc(room);
    while (trace && (n = fread(trace + trace_bytes, 1, room - trace_bytes, stdin)) > 0) {
        trace_bytes += n;
        if (trace_bytes == room)
            trace = realloc(trace, room *= 2);
    }
    if (!trace)
        bad("out of memory");
    if (trace_bytes < SPANS_MAGIC_BYTES || memcmp(trace, SPANS_MAGIC, SPANS_MAGIC_BYTES) != 0)
        bad("not a trace of spans");
}

static uint64_t number(void)
{
    uint64_t n = 0;

    for (unsigned shift = 0; at < trace_bytes && shift < 64; shift += 7) {
        unsigned char byte = trace[at++];

        n |= (uint64_t)(byte & 127) << shift;
        if (byte < 128)
            return n;
    }
    bad("half a number");
}

static struct sa_span **place(void)
{
    uint64_t n = number();

    place_before += (n >> 1) ^ -(n & 1);
    if (place_before >= PLACES)
        bad("a place far from others");
    return &spans[place_before];
}

static struct sa_span **span_at(void)
{
    struct sa_span **s = place();

    if (!*s)
        bad("a place without a span");
    return s;
}

/* Notes the use of pages, and tells the rule. */
static void moment(uint64_t now_ns)
{
    now.now_ns = now_ns;
    heap_sums(&now.sums);
}

static void rule_tick(const struct rule *rule)
{
    last_tick_ns = now.now_ns;
    if (rule->tick)
        rule->tick(&now);
}

static void draw(void)
{
    struct sa_retention_sums s;

    heap_sums(&s);
    printf("%.1f %.1f %.1f\n", (double)(meter.now_ns - START_NS) / 1e9,
           (double)s.used / PAGES_IN_MIB, (double)(s.used + s.whole + s.inside) / PAGES_IN_MIB);
    next_curve_ns += CURVE_NS;
}

/* Time passes, with ticks of a thread. */
static void pass(const struct rule *rule, uint64_t to_ns)
{
    bool thread = rule->clock == CLOCK_THREAD || (rule->clock == CLOCK_WATCH && now.threads);

    while (meter.now_ns < to_ns) {
        uint64_t next = to_ns;

        next_tick_ns = sa_max(next_tick_ns, meter.now_ns + 1);
        if (thread)
            next = sa_min(next, next_tick_ns);
        if (curve)
            next = sa_min(next, sa_max(next_curve_ns, meter.now_ns + 1));
        slack_page_s +=
            (double)sa_retention_slack(now.sums.used) * (double)(next - meter.now_ns) / 1e9;
        heap_pass(next);
        moment(next);
        if (thread && next >= next_tick_ns) {
            next_tick_ns = next + TICK_NS;
            heap_tick(now.wasteful);
            moment(next);
            rule_tick(rule);
        }
        if (curve && next >= next_curve_ns)
            draw();
    }
}

static struct sa_span *take_span(const struct heap_take *what)
{
    struct sa_span *s = heap_take(what);

    foresight_take(s->start, s->pages, now.now_ns);
    return s;
}

static void give_span(struct sa_span *s, bool zero)
{
    foresight_give(s->start, s->pages, now.now_ns);
    heap_give(s, zero);
}

static void take(const struct rule *rule, int op)
{
    struct sa_span **s = place();
    struct heap_take what = {.pages = number(), .align = 1, .dense = op == SPANS_DENSE};
    uint64_t whole = meter.whole, inside = meter.inside;

    if (op == SPANS_ALIGNED)
        what.align = 1ul << (number() & 31);
    if (*s || !what.pages || what.pages >= PLACES)
        bad("a span in the place of another, or without pages");
    *s = take_span(&what);
    place_before += what.pages;
    if (rule->touched)
        rule->touched(meter.whole - whole, meter.inside - inside);
}

static void give(const struct rule *rule, struct sa_span **s, bool zero)
{
    size_t pages = (*s)->pages;

    if (rule->falls)
        rule->falls(&now);
    give_span(*s, zero);
    *s = NULL;
    place_before += pages;
    moment(now.now_ns);
    if (rule->fell)
        rule->fell(&now);
}

/* In this heap there may be other spans behind. Then the block moves. */
static void resize(const struct rule *rule)
{
    struct sa_span **s = span_at(), *moved;
    struct heap_take what = {.pages = number(), .align = 1};
    size_t before;

    if (rule->falls)
        rule->falls(&now);
    before = (*s)->pages;
    if (before > what.pages)
        foresight_give((*s)->start + (what.pages << SA_PAGE_SHIFT), before - what.pages,
                       now.now_ns);
    if (heap_resize(*s, what.pages) && (*s)->pages > before) {
        foresight_take((*s)->start + (before << SA_PAGE_SHIFT), (*s)->pages - before, now.now_ns);
    } else if ((*s)->pages != what.pages) {
        moved = take_span(&what);
        give_span(*s, false);
        *s = moved;
    }
    moment(now.now_ns);
    if (rule->fell)
        rule->fell(&now);
}

static void split(void)
{
    struct sa_span **s = span_at(), *rest;
    size_t pages = number(), all = (*s)->pages;

    if (!pages || pages >= all)
        bad("a split outside of the span");
    rest = heap_split(*s, pages);
    if (!rest) {
        struct heap_take what[2] = {{pages, 1, true}, {all - pages, 1, true}};

        give_span(*s, false);
        *s = take_span(&what[0]);
        rest = take_span(&what[1]);
    }
    if (s + pages >= spans + PLACES || s[pages])
        bad("a split over another span");
    s[pages] = rest;
}

static void join(void)
{
    struct sa_span **s = span_at(), **next = span_at();
    struct heap_take what = {(*s)->pages + (*next)->pages, 1, true};

    if (!heap_join(*s, *next)) {
        give_span(*s, false);
        give_span(*next, false);
        *s = take_span(&what);
    }
    *next = NULL;
}

/* The program's own maintenance. */
static void tick(const struct rule *rule)
{
    uint64_t flags = number();

    now.threads |= flags & SPANS_THREADS;
    now.wasteful = flags & SPANS_WASTEFUL;
    heap_tick(now.wasteful);
    moment(now.now_ns);
    if (now.now_ns - last_tick_ns >= TICK_LEAST_NS)
        rule_tick(rule);
}

/* True if the record was a request, or a free. */
static bool step(const struct rule *rule, int op)
{
    switch (op) {
    case SPANS_TAKE:
    case SPANS_DENSE:
    case SPANS_ALIGNED:
        take(rule, op);
        return true;
    case SPANS_GIVE:
    case SPANS_GIVE_ZERO:
        give(rule, span_at(), op == SPANS_GIVE_ZERO);
        return true;
    case SPANS_RESIZE:
        resize(rule);
        return true;
    case SPANS_SPLIT:
        split();
        return false;
    case SPANS_JOIN:
        join();
        return false;
    case SPANS_TICK:
        tick(rule);
        return false;
    case SPANS_TIME:
        pass(rule, meter.now_ns + number() * MS);
        return false;
    case SPANS_CPU:
        now.cpu_ns += number() * MS;
        return false;
    default:
        bad("an unknown record");
    }
}

static void replay(const struct rule *rule)
{
    spans = mmap(NULL, PLACES * sizeof(*spans), PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (spans == MAP_FAILED)
        bad("out of memory");
    place_before = PLACES / 2;
    heap_begin(rule->library);
    foresight_begin();
    meter.now_ns = last_tick_ns = next_curve_ns = START_NS;
    next_tick_ns = START_NS + TICK_NS;
    optimum.falls =
        malloc((trace_bytes + 1) * sizeof(*optimum.falls)); /* a record is one at most */
    if (!optimum.falls)
        bad("out of memory");
    at = SPANS_MAGIC_BYTES;
    heap_tick(false);
    while (at < trace_bytes) {
        moment(meter.now_ns);
        if (!step(rule, trace[at++]))
            continue;
        heap_step();
        moment(meter.now_ns);
        sa_optimum_use(&optimum, meter.now_ns, now.sums.used);
        if (rule->call)
            rule->call(&now);
    }
    free(optimum.falls);
}

static void print(const struct rule *rule)
{
    double seconds = (double)(meter.now_ns - START_NS) / 1e9;
    double cost = meter.hold_ns + meter.touch_ns;
    double refaults = (double)(meter.whole + meter.inside) - (double)optimum.top;

    if (rule->foresight)
        printf("optimum %.6f\nforesight %.6f\nslack %.6f\n", optimum.cost / 1e9, foresight_ns / 1e9,
               slack_page_s * SA_HOLD_NS / 1e9);
    printf("%s %.6f %.6f %.6f %.1f %.2f %.1f %.1f\n", rule->name, cost / 1e9, meter.hold_ns / 1e9,
           meter.touch_ns / 1e9, (double)meter.peak / PAGES_IN_MIB,
           seconds > 0 ? meter.free_page_s / seconds / PAGES_IN_MIB : 0, refaults / PAGES_IN_MIB,
           seconds);
}

static bool run(const struct rule *rule)
{
    pid_t child;
    int status;

    fflush(stdout);
    child = fork();
    if (child == 0) {
        replay(rule);
        if (!curve)
            print(rule);
        fflush(stdout);
        _exit(0);
    }
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

int main(int argc, char **argv)
{
    const struct rule *only = argc == 3 ? rule_find(argv[2]) : NULL;
    bool ok = true;

    curve = only && strcmp(argv[1], "--curve") == 0;
    if (argc != 1 && !curve) {
        fprintf(stderr, "usage: %s [--curve RULE] < TRACE\n", argv[0]);
        return 2;
    }
    read_trace();
    if (only)
        return !run(only);
    for (unsigned i = 0; rule_at(i); i++)
        ok &= run(rule_at(i));
    return !ok;
}
