/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sliding-window minimum and maximum: the least and the greatest value of a number over a window of
 * the past. The window is a ring of slots, each for an equal part of it. Zeroed memory with the
 * length of a slot set is an empty window. No lock of its own. The caller passes the time to
 * sa_sliding_window_advance; it does not go back.
 */
#ifndef SA_PAGE_HEAP_HUGE_SLIDING_WINDOW_H
#define SA_PAGE_HEAP_HUGE_SLIDING_WINDOW_H

#include <stddef.h>
#include <stdint.h>

#define SA_SLIDING_WINDOW_SLOTS 60

struct sa_sliding_window {
    uint64_t slot_ns; /* the window is SA_SLIDING_WINDOW_SLOTS of these; const */
    uint64_t slot;    /* number of the current slot since time 0, plus 1; 0: time has not begun */
    size_t at;        /* the place of the current slot in the ring */
    size_t now;       /* the last value */
    /* Values above UINT32_MAX (32 TiB in pages) count as UINT32_MAX. Every program touches all of
     * this, so it is short. */
    uint32_t min[SA_SLIDING_WINDOW_SLOTS], max[SA_SLIDING_WINDOW_SLOTS];
};

static inline uint32_t sa_sliding_window_entry(size_t value)
{
    return value < UINT32_MAX ? (uint32_t)value : UINT32_MAX;
}

static inline void sa_sliding_window_add(struct sa_sliding_window *w, size_t value)
{
    uint32_t entry = sa_sliding_window_entry(value);

    w->now = value;
    if (entry < w->min[w->at])
        w->min[w->at] = entry;
    if (entry > w->max[w->at])
        w->max[w->at] = entry;
}

/* Advances the window to the time. Since the last call, the value was the last one added. */
void sa_sliding_window_advance(struct sa_sliding_window *w, uint64_t now_ns);

/* Over the last ns nanoseconds (at least one slot, at most all). */
size_t sa_sliding_window_min(const struct sa_sliding_window *w, uint64_t ns);
size_t sa_sliding_window_max(const struct sa_sliding_window *w, uint64_t ns);

#endif
