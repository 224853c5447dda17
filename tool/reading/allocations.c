/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The difference of the totals of each stack; see allocations.h. All sums of a total are sums over
 * samples, so the difference is the sums over the samples taken in between.
 *
 * A stack that is evicted from the target's table meanwhile adds its totals to those of the unknown
 * stack. What it had before is subtracted there.
 */
#include "tool/reading/allocations.h"

#include "tool/base/time.h"
#include "tool/reading/processes.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int by_stack(const void *a, const void *b)
{
    const struct sa_total *x = a, *y = b;

    return x->stack < y->stack ? -1 : x->stack > y->stack;
}

static struct sa_total *find(struct sa_profile *p, const struct sa_stack *stack)
{
    struct sa_total key = {(struct sa_stack *)stack, {0}};

    return p->total_count ? bsearch(&key, p->totals, p->total_count, sizeof(key), by_stack) : NULL;
}

static const size_t sums[] = {
    offsetof(struct sa_sums, certain_bytes),
    offsetof(struct sa_sums, count),
    offsetof(struct sa_sums, bytes),
    offsetof(struct sa_sums, sampled_bytes),
    offsetof(struct sa_sums, count_variance),
    offsetof(struct sa_sums, bytes_variance),
    offsetof(struct sa_sums, bytes_squares),
    offsetof(struct sa_sums, offset_count),
    offsetof(struct sa_sums, offset_bytes),
    offsetof(struct sa_sums, hits_count),
    offsetof(struct sa_sums, hits_bytes),
    offsetof(struct sa_sums, failures),
    offsetof(struct sa_sums, failures_variance),
    offsetof(struct sa_sums, offset_count_variance),
};

/* Subtracts sums. What is below 0 is rounding, or a total that was read while it changed. */
static void subtract(struct sa_sums *from, const struct sa_sums *less)
{
    from->samples -= less->samples < from->samples ? less->samples : from->samples;
    from->certain -= less->certain < from->certain ? less->certain : from->certain;
    for (size_t i = 0; i < sizeof(sums) / sizeof(*sums); i++) {
        double *ours = (double *)((char *)from + sums[i]);
        double theirs = *(const double *)((const char *)less + sums[i]);

        *ours = *ours > theirs ? *ours - theirs : 0;
    }
    if (!from->samples && !from->certain)
        memset(from, 0, sizeof(*from));
}

static bool is_less(const struct sa_sums *a, const struct sa_sums *b)
{
    return a->samples < b->samples || a->certain < b->certain;
}

/* Makes `after` the difference. */
static void take_difference(struct sa_profile *before, struct sa_profile *after)
{
    struct sa_total *unknown;
    size_t kept = 0;

    qsort(before->totals, before->total_count, sizeof(*before->totals), by_stack);
    qsort(after->totals, after->total_count, sizeof(*after->totals), by_stack);
    unknown = find(after, &sa_stack_unknown);
    for (size_t i = 0; i < before->total_count; i++) {
        const struct sa_total *old = &before->totals[i];
        struct sa_total *now = find(after, old->stack);

        if (now && !is_less(&now->sums, &old->sums))
            subtract(&now->sums, &old->sums);
        else if (unknown) /* evicted; and if it is there again, all of it is new */
            subtract(&unknown->sums, &old->sums);
    }
    for (size_t i = 0; i < after->total_count; i++)
        if (after->totals[i].sums.samples || after->totals[i].sums.certain)
            after->totals[kept++] = after->totals[i];
    after->total_count = kept;
}

static uint64_t difference(uint64_t after, uint64_t before)
{
    return after > before ? after - before : 0;
}

/* Opens the process anew: addresses of stacks may be those of others by now. It may have become
 * another program, and another process may have its PID. */
static bool open_again(struct sa_reading *r, const struct sa_process *before, struct sa_error *e)
{
    struct sa_process after;
    uint64_t place = sa_table_variable(&r->table, "sa_hot", e);

    sa_reading_close(r);
    if (!sa_reading_open(r, (struct sa_source){.pid = before->pid}, e))
        return false;
    sa_process_read(r->target.pid, &after);
    if (sa_table_variable(&r->table, "sa_hot", e) != place || before->started != after.started)
        sa_error_set(e, SA_EXIT_NONE, "process %d has become another program meanwhile",
                     before->pid);
    return !e->code;
}

bool sa_reading_allocations(struct sa_reading *r, double seconds, struct sa_outside_profile *ret,
                            struct sa_error *e)
{
    struct sa_outside_profile before;
    struct sa_profile *after = &ret->profile;
    struct sa_process process;
    int64_t start = sa_time_ns(CLOCK_MONOTONIC);

    memset(ret, 0, sizeof(*ret));
    sa_process_read(r->target.pid, &process);
    if (sa_reading_profile(r, SALLOC_PROFILE_ALLOCATIONS, &before, e)) {
        sa_time_wait(seconds);
        if (open_again(r, &process, e) &&
            sa_reading_profile(r, SALLOC_PROFILE_ALLOCATIONS, ret, e)) {
            take_difference(&before.profile, after);
            after->time_ns = before.profile.time_ns;
            after->duration_ns = sa_time_ns(CLOCK_MONOTONIC) - start;
            after->stacks_dropped =
                difference(after->stacks_dropped, before.profile.stacks_dropped);
            after->stacks_evicted =
                difference(after->stacks_evicted, before.profile.stacks_evicted);
            after->samples_dropped =
                difference(after->samples_dropped, before.profile.samples_dropped);
            ret->dropped += before.dropped;
        }
    }
    sa_outside_profile_free(&before);
    if (e->code && kill(process.pid, 0) != 0 && errno == ESRCH) {
        e->code = SA_EXIT_DONE;
        sa_error_set(e, SA_EXIT_NONE, "process %d has ended meanwhile", process.pid);
    }
    return !e->code;
}
