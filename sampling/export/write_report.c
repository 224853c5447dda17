/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a table for people: the summary, and then the stacks, most bytes first, with their
 * confidence intervals. doc/profiles.md, "The table", explains the columns.
 */
#include "sampling/export/write.h"

#include "alloc/base/fmt.h"
#include "sampling/export/summary.h"
#include "sampling/export/values.h"
#include "sampling/symbolize/frames.h"

#define LEVEL 0.95 /* of the confidence intervals */

static void put_summary(const struct sa_profile *profile, const struct sa_by_stack *all,
                        struct sa_sink *out)
{
    sa_summary_put(profile, all, "", out);
    if (all->alloc_count)
        sa_sink_text(out, "ever allocated: %llu bytes in %llu blocks\n",
                     (unsigned long long)all->alloc_bytes, (unsigned long long)all->alloc_count);
}

static void put_life(double ns, struct sa_sink *out)
{
    double span;
    const char *unit = sa_summary_life(ns, &span);

    sa_sink_text(out, " %6.2F %3s", span, unit);
}

/* Puts the mean, the shortest (if asked for) and the longest life. */
static void put_lives(const struct sa_lives *lives, bool min, struct sa_sink *out)
{
    if (lives->weight == 0) {
        sa_sink_string(out, min ? "          -          -          -" : "          -          -");
        return;
    }
    put_life(lives->sum / lives->weight, out);
    if (min)
        put_life((double)lives->min, out);
    put_life((double)lives->max, out);
}

/* Puts the row of a stack. */
static void put_row(const struct sa_profile *profile, const struct sa_by_stack *all,
                    const struct sa_by_stack *s, struct sa_sink *out)
{
    bool wasted = profile->type == SALLOC_PROFILE_FRAGMENTATION;
    struct salloc_estimate e;

    sa_estimate(&s->sums, &profile->unseen, SALLOC_ESTIMATE_WEIGHTED, LEVEL, &e);
    sa_sink_text(out, "%14llu %6.2F%%", (unsigned long long)s->bytes,
                 all->bytes ? 100.0 * (double)s->bytes / (double)all->bytes : 0.0);
    sa_sink_text(out, " %14.0F", e.bytes_low);
    if (e.bytes_high < SA_ESTIMATE_UNKNOWN)
        sa_sink_text(out, " %14.0F", e.bytes_high);
    else
        sa_sink_text(out, " %14s", "unknown");
    sa_sink_text(out, " %12llu %8llu", (unsigned long long)s->count, (unsigned long long)e.samples);
    if (wasted)
        sa_sink_text(out, " %14llu", (unsigned long long)s->inuse_bytes);
    if (profile->type == SALLOC_PROFILE_HEAP)
        sa_sink_text(out, " %14llu", (unsigned long long)s->alloc_bytes);
    if (profile->type == SALLOC_PROFILE_LIFETIMES) {
        sa_sink_text(out, " %12llu", (unsigned long long)s->censored.blocks);
        put_lives(&s->freed, true, out);
        put_lives(&s->censored, false, out);
    }
    sa_sink_string(out, "\n");
}

static void put_columns(const struct sa_profile *profile, struct sa_sink *out)
{
    bool wasted = profile->type == SALLOC_PROFILE_FRAGMENTATION;

    sa_sink_text(out, "\n%14s %7s %14s %14s %12s %8s", wasted ? "wasted bytes" : "bytes", "share",
                 wasted ? "in use: from" : "95 %: from", "to", "blocks", "samples");
    if (wasted)
        sa_sink_text(out, " %14s", "bytes in use");
    if (profile->type == SALLOC_PROFILE_HEAP)
        sa_sink_text(out, " %14s", "ever allocated");
    if (profile->type == SALLOC_PROFILE_LIFETIMES)
        sa_sink_string(out, "   still live  mean life   min life   max life   mean age    max age");
    sa_sink_string(out, "\n");
}

/* Puts the frames of a stack, one on a line. */
static void put_frames(const struct sa_frames *frames, const struct sa_stack *stack,
                       struct sa_sink *out)
{
    for (size_t i = 0; i < sa_frames_depth(stack); i++) {
        uintptr_t pc = sa_frames_pc(stack, i);

        sa_sink_string(out, "                       ");
        sa_sink_string(out, sa_frames_name(frames, pc));
        sa_sink_string(out, "\n");
    }
}

int sa_write_report(const struct sa_profile *profile, struct sa_sink *out)
{
    struct sa_buffer stacks = {NULL, 0, 0};
    struct sa_frames frames;
    struct sa_by_stack all;
    const struct sa_by_stack *stack;
    int failed = sa_frames_collect(profile, &frames);

    if (failed)
        return failed;
    failed = sa_values_by_stack(profile, &stacks, &all);
    if (!failed) {
        put_summary(profile, &all, out);
        put_columns(profile, out);
    }
    stack = (const struct sa_by_stack *)stacks.data;
    for (size_t i = 0; i < stacks.used / sizeof(*stack); i++) {
        put_row(profile, &all, &stack[i], out);
        put_frames(&frames, stack[i].stack, out);
    }
    sa_buffer_free(&stacks);
    sa_frames_free(&frames);
    return failed;
}
