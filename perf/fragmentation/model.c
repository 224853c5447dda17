/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replays a trace of allocations (record_trace.c) against a model of salloc, and prints what memory
 * it takes. Thresholds can thus be tried in seconds; search.py tries many.
 *
 *   salloc-frag-model [NAME=VALUE...] TRACE
 *
 * Without parameters it has salloc's rules and numbers; parameters_of has the names. The trace is
 * divided into parts of equal bytes allocated, or with by_ops=1 of equal numbers of operations. For
 * the end of each part it prints the footprint, live bytes (as the program asked for), and where
 * the rest is. The last line is about the second half of the parts, without the last one, in which
 * the program ends: the mean footprint over the mean of what is live, and the highest footprint
 * over the same. Then come, of all parts: the highest footprint, bytes that classes took from mixed
 * spans, spans that became mixed, hugepages that pages were released of, and operations. Other
 * memory of the program is not counted.
 */
#include "perf/fragmentation/model.h"
#include "perf/fragmentation/model_blocks.h"
#include "perf/fragmentation/trace_reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TICK_MS 500

/* Records of the library: of a span; for each page of a hugepage with mixed spans; of the pagemap
 * for each page; what a process has from the beginning. */
#define SPAN_RECORD  56
#define MIXED_RECORD 132
#define PAGE_RECORD  10
#define BASE_RECORDS (1536ul << 10)

struct params params = {
    .mixed = 1,
    .waste = 1.0 / 5,
    .returns_waste = 1.0 / 6,
    .floor_bytes = 4 << 20,
    .sparse = 1.0 / 3,
    .align = 64,
    .convert = 4,
    .cpu_cache = 6 << 20,
    .transfer = 1,
    .shake_bytes = 1 << 20,
    .drain = 2,
    .keep = 0.5,
    .keep_lean = 1.0 / 48,
    .keep_bytes = 8 << 20,
    .keep_lean_bytes = 1 << 20,
    .break_bytes = 256 << 10,
    .break_lean_bytes = 32 << 10,
    .borrow = 1,
    .returns = SA_SMALL_MAX,
    .return_times = 12,
    .join = 256 << 10,
    .run = 1,
};
int64_t given_bytes;
uint64_t now_ms;

static double parts = 40, quiet, by_ops;

static const struct {
    const char *name;
    double *value;
} parameters_of[] = {
    {"mixed", &params.mixed},
    {"waste", &params.waste},
    {"returns_waste", &params.returns_waste},
    {"floor", &params.floor_bytes},
    {"sparse", &params.sparse},
    {"align", &params.align},
    {"convert", &params.convert},
    {"cache", &params.cpu_cache},
    {"transfer", &params.transfer},
    {"shake", &params.shake_bytes},
    {"drain", &params.drain},
    {"keep", &params.keep},
    {"keep_lean", &params.keep_lean},
    {"keep_bytes", &params.keep_bytes},
    {"keep_lean_bytes", &params.keep_lean_bytes},
    {"break", &params.break_bytes},
    {"break_lean", &params.break_lean_bytes},
    {"borrow", &params.borrow},
    {"returns", &params.returns},
    {"return_times", &params.return_times},
    {"join", &params.join},
    {"run", &params.run},
    {"parts", &parts},
    {"quiet", &quiet},
    {"by_ops", &by_ops},
};

static uint64_t live, rounded; /* bytes that the program has; of their classes */
static uint64_t unknown;       /* frees of blocks that were not recorded */
static unsigned cpu;

void model_fail(const char *condition, const char *file, int line)
{
    fprintf(stderr, "%s:%d: not true: %s\n", file, line, condition);
    abort();
}

/* --- The program --- */

/* Returns the class of a block, as sa_block_class does; 0: none. */
static unsigned class_for(uint64_t size, unsigned log_align)
{
    size_t align = (size_t)1 << log_align;
    unsigned cls;

    if (size > SA_MID_MAX || align > SA_PAGE_BYTES)
        return 0;
    cls = sa_size_class_find(sa_max(size, 1));
    while (cls < sa_size_classes.count && sa_size_classes.of[cls].size & (align - 1))
        cls++;
    return cls < sa_size_classes.count ? cls : 0;
}

static size_t pages_for(uint64_t size)
{
    return sa_max((size + SA_PAGE_BYTES - 1) / SA_PAGE_BYTES, 1);
}

static uint64_t block_bytes(const struct block *b)
{
    return b->cls ? sa_size_classes.of[b->cls].size : pages_for(b->size) * SA_PAGE_BYTES;
}

static void add_block(uint64_t address, uint64_t size, unsigned log_align)
{
    struct block b = {.address = address, .size = size, .cls = class_for(size, log_align)};
    size_t n = pages_for(size);
    unsigned borrowed = 0;
    uint32_t unit;

    if (b.cls) {
        borrowed = params.borrow > 1 ? cache_borrow(cpu, b.cls, &unit) : 0;
        b.place = borrowed ? unit : cache_alloc(cpu, b.cls);
        b.cls = borrowed ? borrowed : b.cls;
    } else {
        if (n > HUGE_PAGES)
            pages_take_large(n);
        else
            b.place = pages_take(n, 1, false);
        given_bytes += (int64_t)(n * SA_PAGE_BYTES);
    }
    live += size;
    rounded += block_bytes(&b);
    blocks_add(&b);
}

static bool drop_block(uint64_t address)
{
    struct block b;
    size_t n;

    if (!blocks_remove(address, &b)) {
        unknown++;
        return false;
    }
    live -= b.size;
    rounded -= block_bytes(&b);
    if (b.cls) {
        cache_free(cpu, b.cls, (uint32_t)b.place);
        return true;
    }
    n = pages_for(b.size);
    given_bytes -= (int64_t)(n * SA_PAGE_BYTES);
    if (n > HUGE_PAGES)
        pages_put_large(n);
    else
        pages_put((uint32_t)b.place, n);
    return true;
}

/* A block of the same class stays in place, as in salloc. */
static void change_block(const struct trace_record *r)
{
    struct block b;

    if (blocks_remove(r->before, &b)) {
        if (b.cls && b.cls == class_for(r->size, 0)) {
            live += r->size - b.size;
            b.size = r->size;
            b.address = r->address;
            blocks_add(&b);
            return;
        }
        blocks_add(&b);
        drop_block(r->before);
    }
    add_block(r->address, r->size, 0);
}

/* --- Parts --- */

static size_t records_bytes(void)
{
    return central_spans_max() * SPAN_RECORD + mixed.tables * HUGE_PAGES * MIXED_RECORD +
           (pages.used + pages.free) * PAGE_RECORD + BASE_RECORDS;
}

static size_t footprint(void)
{
    return (pages.used + pages.free + pages.large + pages.large_free) * SA_PAGE_BYTES +
           records_bytes();
}

static void check(void)
{
    size_t used = (pages.used + pages.large) * SA_PAGE_BYTES;

    pages_check();
    central_check();
    mixed_check();
    /* M1. Blocks on mixed spans, and cached ones from there, count as given. */
    MODEL_CHECK(rounded + cache_cpu_bytes() + cache_transfer_bytes() + central_free_bytes() +
                    central_tail_bytes() + mixed.bytes - mixed.used ==
                used);
    MODEL_CHECK((uint64_t)given_bytes == rounded + cache_cpu_bytes());
}

static double mib(size_t bytes)
{
    return (double)bytes / 1048576;
}

/* Checks the invariants at the end of a part, and prints it. */
static void part(int number)
{
    double ratio = (double)footprint() / (double)sa_max(live, 1);

    check();
    if (!quiet)
        printf("%3d %9.2f %9.2f %6.3f %8.2f %8.2f %8.2f %8.2f %8.2f %8.2f %8.2f %8.2f\n", number,
               mib(footprint()), mib(live), ratio, mib(rounded - live), mib(cache_cpu_bytes()),
               mib(cache_transfer_bytes()), mib(central_free_bytes()), mib(central_tail_bytes()),
               mib(mixed.bytes - mixed.used), mib((pages.free + pages.large_free) * SA_PAGE_BYTES),
               mib(records_bytes()));
}

static void pass_time(uint64_t ms)
{
    uint64_t tick = now_ms / TICK_MS;

    now_ms += ms;
    if (now_ms / TICK_MS == tick)
        return;
    cache_tick();
    pages_tick();
}

/* Replays a record. Returns the bytes that it allocates. */
static uint64_t replay(const struct trace_record *r)
{
    switch (r->op) {
    case TRACE_ALLOC:
    case TRACE_ALIGNED:
        add_block(r->address, r->size, r->log_align);
        return r->size;
    case TRACE_FREE:
        drop_block(r->address);
        return 0;
    case TRACE_REALLOC:
        change_block(r);
        return r->size;
    case TRACE_CPU:
        cpu = (unsigned)r->number;
        return 0;
    case TRACE_TIME:
        pass_time(r->number);
        return 0;
    }
    return 0;
}

static bool counts(const struct trace_record *r)
{
    return r->op != TRACE_CPU && r->op != TRACE_TIME;
}

static uint64_t weight(const struct trace_record *r)
{
    return by_ops ? counts(r) : r->op == TRACE_FREE ? 0 : counts(r) ? r->size : 0;
}

static void run(struct trace *t)
{
    struct trace_record r;
    uint64_t total = 0, ops = 0, done = 0;
    size_t highest = 0, highest_late = 0;
    double sum = 0, sum_live = 0;
    int number = 0, late = 0;

    while (trace_next(t, &r)) {
        total += weight(&r);
        ops += counts(&r);
    }
    trace_rewind(t);
    if (!quiet)
        printf("%3s %9s %9s %6s %8s %8s %8s %8s %8s %8s %8s %8s\n", "", "MiB", "live", "ratio",
               "rounding", "CPUs", "transfer", "central", "tails", "runs", "pages", "records");
    while (trace_next(t, &r)) {
        replay(&r);
        done += weight(&r);
        highest = sa_max(highest, footprint());
        if (number >= (int)parts / 2 && number + 1 < (int)parts)
            highest_late = sa_max(highest_late, footprint());
        if ((double)done < (double)total / parts * (number + 1))
            continue;
        part(++number);
        if (number > (int)parts / 2 && number < (int)parts) {
            sum += (double)footprint();
            sum_live += (double)live;
            late++;
        }
    }
    printf("mean %.3f most %.3f peak_mib %.1f taken_mib %.1f conversions %zu releases %zu ops %llu "
           "unknown %llu\n",
           late ? sum / sum_live : 0, late ? (double)highest_late / (sum_live / late) : 0,
           mib(highest), mib(mixed.taken), mixed.conversions, pages.releases,
           (unsigned long long)ops, (unsigned long long)unknown);
}

static int usage(const char *name)
{
    fprintf(stderr, "usage: %s [NAME=VALUE...] TRACE\n", name);
    for (size_t i = 0; i < sizeof(parameters_of) / sizeof(parameters_of[0]); i++)
        fprintf(stderr, "  %s=%g\n", parameters_of[i].name, *parameters_of[i].value);
    return 2;
}

static bool set_parameter(const char *text)
{
    const char *equals = strchr(text, '=');
    size_t length = equals ? (size_t)(equals - text) : 0;

    for (size_t i = 0; equals && i < sizeof(parameters_of) / sizeof(parameters_of[0]); i++)
        if (strlen(parameters_of[i].name) == length &&
            strncmp(parameters_of[i].name, text, length) == 0) {
            *parameters_of[i].value = atof(equals + 1);
            return true;
        }
    return false;
}

int main(int argc, char **argv)
{
    struct trace t;

    for (int i = 1; i < argc - 1; i++)
        if (!set_parameter(argv[i]))
            return usage(argv[0]);
    if (argc < 2)
        return usage(argv[0]);
    sa_size_class_init(4096, 0, 2 * SA_CLASSES_MAX);
    trace_open(&t, argv[argc - 1]);
    run(&t);
    return 0;
}
