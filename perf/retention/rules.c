/* SPDX-License-Identifier: Apache-2.0 */
/* The rules; see rules.h. A process runs one of them, so that their states are statics. */
#include "perf/retention/rules.h"

#include "alloc/base/bits.h"
#include "perf/retention/heap.h"

#include <string.h>

#define SECOND 1000000000ull

static size_t free_of(const struct sa_retention_sums *s)
{
    return s->whole + s->inside;
}

/* Releases pages, whole hugepages first. */
static size_t release(size_t pages)
{
    size_t done = heap_release_whole(pages);

    return done + (pages > done ? heap_release_inside(pages - done) : 0);
}

/* The sentence. While memory is wasted, both windows are as short as they get. */
static struct sa_retention whole, inside, hurried;
static struct sa_retention_once once;

static void sentence_note(const struct moment *m)
{
    whole.tau_ns = sa_retention_tau_ns(SA_PRICE_WHOLE_NS, SA_HOLD_NS);
    inside.tau_ns = sa_retention_tau_ns(SA_PRICE_INSIDE_NS, SA_HOLD_NS);
    hurried.tau_ns = SA_TAU_MIN_NS;
    sa_retention_note(&whole, m->now_ns, m->sums.used_whole);
    sa_retention_note(&inside, m->now_ns, m->sums.used);
    sa_retention_note(&hurried, m->now_ns, m->sums.used);
}

static void sentence_fell(const struct moment *m)
{
    size_t due = m->threads ? 0 : sa_retention_once_due(&once, &m->sums, m->cpu_ns);

    if (due)
        sa_retention_once_released(&once, heap_release_whole(due));
}

static void sentence_tick(const struct moment *m)
{
    struct sa_retention_due due;

    sentence_note(m);
    due = sa_retention_due(&whole, m->wasteful ? &hurried : &inside, &m->sums);
    if (due.whole)
        heap_release_whole(due.whole);
    if (due.inside)
        heap_release_inside(due.inside);
}

static void sentence_touched(size_t pages, size_t pages_inside)
{
    sa_retention_once_refaulted(&once, pages, SA_PRICE_WHOLE_NS);
    sa_retention_once_refaulted(&once, pages_inside, SA_PRICE_INSIDE_NS);
}

static void fraction_tick(const struct moment *m)
{
    const struct sa_retention_sums *s = &m->sums;
    size_t slack = sa_retention_slack(s->used), left = slack - sa_min(slack, s->inside);
    size_t keep_whole, keep_inside;

    sentence_note(m);
    keep_whole = sa_retention_fraction(&whole, s->used_whole) - s->used_whole -
                 sa_retention_slack(s->used_whole) + left;
    keep_inside = sa_retention_fraction(m->wasteful ? &hurried : &inside, s->used) - s->used;
    if (s->whole > keep_whole)
        heap_release_whole(s->whole - keep_whole);
    if (s->inside > keep_inside)
        heap_release_inside(s->inside - keep_inside);
}

/* jemalloc: of the pages that became free in one of 200 steps of 50 ms, the part that may stay is
 * a smooth step of the time that is left. */
#define DECAY_STEPS   200
#define DECAY_STEP_NS (SECOND / 20)

static size_t backlog[DECAY_STEPS]; /* the newest last */
static size_t decay_left;           /* free pages after the last step */
static uint64_t decay_epoch;

static double smooth_step(double x)
{
    return x * x * x * (x * (x * 6 - 15) + 10);
}

static void jemalloc_call(const struct moment *m)
{
    uint64_t epoch = m->now_ns / DECAY_STEP_NS, steps = epoch - decay_epoch;
    size_t pages = free_of(&m->sums), n = sa_min(steps, DECAY_STEPS);
    double keep = 0;

    if (!steps)
        return;
    decay_epoch = epoch;
    memmove(backlog, backlog + n, (DECAY_STEPS - n) * sizeof(backlog[0]));
    memset(backlog + DECAY_STEPS - n, 0, n * sizeof(backlog[0]));
    backlog[DECAY_STEPS - 1] = pages - sa_min(pages, decay_left);
    for (size_t i = 0; i < DECAY_STEPS; i++)
        keep += (double)backlog[i] * smooth_step((double)(i + 1) / DECAY_STEPS);
    if ((double)pages > keep)
        pages -= sa_min(pages, release(pages - (size_t)keep));
    decay_left = pages;
}

/* mimalloc: the pages that stayed free from one purge to the next, a second later. */
static uint64_t purge_ns;
static size_t purge_low;

static void mimalloc_call(const struct moment *m)
{
    purge_low = sa_min(purge_low, free_of(&m->sums));
    if (m->now_ns < purge_ns)
        return;
    if (purge_low)
        release(purge_low);
    purge_low = SIZE_MAX;
    purge_ns = m->now_ns + SECOND;
}

/* tcmalloc: demand by the second. */
#define DEMAND_SECONDS 300
#define DEMAND_SHORT   60

static struct {
    size_t min, max;
} demand[DEMAND_SECONDS];
static uint64_t demand_second;

static void tcmalloc_note(const struct moment *m)
{
    uint64_t second = m->now_ns / SECOND;
    size_t used = m->sums.used;

    for (uint64_t i = sa_max(demand_second + 1, second - sa_min(second, DEMAND_SECONDS - 1));
         i <= second; i++)
        demand[i % DEMAND_SECONDS].min = demand[i % DEMAND_SECONDS].max = used;
    demand_second = second;
    demand[second % DEMAND_SECONDS].min = sa_min(demand[second % DEMAND_SECONDS].min, used);
    demand[second % DEMAND_SECONDS].max = sa_max(demand[second % DEMAND_SECONDS].max, used);
}

static void tcmalloc_tick(const struct moment *m)
{
    size_t rise = 0, low = 0, backed = m->sums.used + free_of(&m->sums), keep;

    tcmalloc_note(m);
    for (uint64_t ago = 0; ago < DEMAND_SECONDS && ago <= demand_second; ago++) {
        uint64_t i = (demand_second - ago) % DEMAND_SECONDS;

        if (ago < DEMAND_SHORT)
            rise = sa_max(rise, demand[i].max - demand[i].min);
        low = sa_max(low, demand[i].min);
    }
    keep = sa_max(rise + low, m->sums.used);
    if (backed > keep)
        release(backed - keep);
}

static void at_once_fell(const struct moment *m)
{
    size_t slack = sa_retention_slack(m->sums.used);

    if (free_of(&m->sums) > slack)
        release(free_of(&m->sums) - slack);
}

static const struct rule rules[] = {
    {"never", CLOCK_CALLS, .foresight = true},
    {"library", CLOCK_CALLS, .library = true},
    {"sentence", CLOCK_WATCH, .falls = sentence_note, .fell = sentence_fell, .tick = sentence_tick,
     .touched = sentence_touched},
    {"fraction", CLOCK_WATCH, .falls = sentence_note, .fell = sentence_fell, .tick = fraction_tick,
     .touched = sentence_touched},
    {"jemalloc", CLOCK_CALLS, .call = jemalloc_call},
    {"mimalloc", CLOCK_CALLS, .call = mimalloc_call},
    {"tcmalloc", CLOCK_THREAD, .call = tcmalloc_note, .tick = tcmalloc_tick},
    {"at_once", CLOCK_CALLS, .fell = at_once_fell},
};

const struct rule *rule_at(unsigned n)
{
    return n < sizeof(rules) / sizeof(rules[0]) ? &rules[n] : NULL;
}

const struct rule *rule_find(const char *name)
{
    for (unsigned i = 0; rule_at(i); i++)
        if (strcmp(rules[i].name, name) == 0)
            return &rules[i];
    return NULL;
}
