/* SPDX-License-Identifier: Apache-2.0 */
/* The table of leaks; see leak_report.h. The estimates are those of the library. */
#include "tool/leaks/leak_report.h"

#include "sampling/estimate/estimate.h"
#include "sampling/symbolize/frames.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LEVEL 0.95 /* of the intervals */

/* The leaks of a stack: what was allocated there and lost by itself, and what such blocks hold. */
struct row {
    const struct sa_stack *stack;
    struct sa_sums own, held;
    double bytes; /* estimate of both */
    uint32_t tie; /* the first sample; so that the order is always the same */
};

static void add_sample(struct sa_sums *sums, const struct sa_sample_copy *s)
{
    struct sa_group group = {.p = s->key.p,
                             .interval = s->key.interval,
                             .allocated = (double)s->key.allocated,
                             .samples = s->samples,
                             .offsets = s->offset,
                             .hits = s->hits};

    sa_sums_add(sums, &group);
}

static int stack_order(const void *a, const void *b)
{
    const struct row *x = a, *y = b;

    if (x->stack != y->stack)
        return (uintptr_t)x->stack < (uintptr_t)y->stack ? -1 : 1;
    return x->tie < y->tie ? -1 : x->tie > y->tie;
}

static int bytes_order(const void *a, const void *b)
{
    const struct row *x = a, *y = b;

    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return x->tie < y->tie ? -1 : x->tie > y->tie;
}

static double estimate_bytes(const struct sa_sums *sums)
{
    return sums->bytes + sums->certain_bytes;
}

/* A row for each stack of a holder; returns how many. */
static size_t make_rows(const struct sa_leaks *l, const struct sa_sample_copy *live,
                        struct row *rows, struct sa_sums *ret_all)
{
    size_t count = 0, kept = 0;

    memset(ret_all, 0, sizeof(*ret_all));
    for (uint32_t i = 0; i < l->count; i++) {
        struct row *row = &rows[count];

        if (l->holder[i] >= SA_LEAK_UNKNOWN)
            continue;
        memset(row, 0, sizeof(*row));
        row->stack = live[l->holder[i]].key.stack;
        row->tie = i;
        add_sample(l->holder[i] == i ? &row->own : &row->held, &live[i]);
        add_sample(ret_all, &live[i]);
        count++;
    }
    qsort(rows, count, sizeof(*rows), stack_order);
    for (size_t i = 0; i < count; i++) {
        struct row *last = kept ? &rows[kept - 1] : NULL;

        if (last && last->stack == rows[i].stack) {
            sa_sums_merge(&last->own, &rows[i].own);
            sa_sums_merge(&last->held, &rows[i].held);
        } else {
            rows[kept++] = rows[i];
        }
    }
    for (size_t i = 0; i < kept; i++)
        rows[i].bytes = estimate_bytes(&rows[i].own) + estimate_bytes(&rows[i].held);
    qsort(rows, kept, sizeof(*rows), bytes_order);
    return kept;
}

static void put_bytes(double bytes, int width, FILE *to)
{
    if (bytes < SA_ESTIMATE_UNKNOWN)
        fprintf(to, "%*.0f", width, bytes);
    else
        fprintf(to, "%*s", width, "unknown");
}

static void put_head(const struct sa_leaks *l, const struct sa_profile *profile,
                     const struct sa_sums *all, double stopped_ms, FILE *to)
{
    struct salloc_estimate e;

    sa_estimate(all, &profile->unseen, SALLOC_ESTIMATE_WEIGHTED, LEVEL, &e);
    fprintf(to, "lost: %.0f bytes (95 %%: ", e.bytes);
    put_bytes(e.bytes_low, 1, to);
    fprintf(to, " to ");
    put_bytes(e.bytes_high, 1, to);
    fprintf(to, ") in %.0f blocks\n", e.count);
    fprintf(to, "samples: %zu in use, %zu of them lost", l->count, l->lost);
    if (l->unknown)
        fprintf(to, ", %zu not looked at", l->unknown);
    fprintf(to, "\nsampling interval: %lld bytes\n", (long long)profile->interval);
    if (stopped_ms >= 0)
        fprintf(to, "the process was stopped for %.0f ms\n", stopped_ms);
}

static void put_row(const struct row *row, const struct sa_frames *frames, FILE *to)
{
    struct salloc_estimate own, both;
    struct sa_sums sums = row->own;

    sa_sums_merge(&sums, &row->held);
    sa_estimate(&row->own, NULL, SALLOC_ESTIMATE_WEIGHTED, LEVEL, &own);
    sa_estimate(&sums, NULL, SALLOC_ESTIMATE_WEIGHTED, LEVEL, &both);
    put_bytes(both.bytes, 14, to);
    putc(' ', to);
    put_bytes(both.bytes_low, 14, to);
    putc(' ', to);
    put_bytes(both.bytes_high, 14, to);
    fprintf(to, " %12.0f %8llu %14.0f %8llu\n", both.count, (unsigned long long)both.samples,
            both.bytes - own.bytes, (unsigned long long)(both.samples - own.samples));
    for (size_t i = 0; i < sa_frames_depth(row->stack); i++)
        fprintf(to, "                       %s\n",
                sa_frames_name(frames, sa_frames_pc(row->stack, i)));
}

int sa_leak_report(const struct sa_leaks *l, const struct sa_profile *profile,
                   const struct sa_sample_copy *live, double stopped_ms, FILE *to)
{
    struct row *rows = calloc(l->lost + 1, sizeof(*rows));
    struct sa_frames frames;
    struct sa_sums all;
    int failed = rows ? sa_frames_collect(profile, &frames) : -ENOMEM;
    size_t count;

    if (failed) {
        free(rows);
        return failed;
    }
    count = make_rows(l, live, rows, &all);
    put_head(l, profile, &all, stopped_ms, to);
    if (count)
        fprintf(to, "\n%14s %14s %14s %12s %8s %14s %8s\n", "bytes", "95 %: from", "to", "blocks",
                "samples", "of them held", "samples");
    for (size_t i = 0; i < count; i++)
        put_row(&rows[i], &frames, to);
    sa_frames_free(&frames);
    free(rows);
    return 0;
}
