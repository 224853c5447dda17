/* SPDX-License-Identifier: Apache-2.0 */
/* Sliding-window minimum and maximum; see sliding_window.h. */
#include "alloc/page_heap/huge/sliding_window.h"

#include "alloc/base/bits.h"

static size_t slot_at(const struct sa_sliding_window *w, uint64_t ago)
{
    return w->at >= ago ? w->at - ago : w->at + SA_SLIDING_WINDOW_SLOTS - ago;
}

void sa_sliding_window_advance(struct sa_sliding_window *w, uint64_t now_ns)
{
    uint64_t slot = now_ns / w->slot_ns + 1, steps;

    if (slot <= w->slot)
        return;
    steps = w->slot ? sa_min(slot - w->slot, SA_SLIDING_WINDOW_SLOTS) : SA_SLIDING_WINDOW_SLOTS;
    w->at = w->slot ? (w->at + (slot - w->slot)) % SA_SLIDING_WINDOW_SLOTS : 0;
    w->slot = slot;
    for (uint64_t i = 0; i < steps; i++)
        w->min[slot_at(w, i)] = w->max[slot_at(w, i)] = sa_sliding_window_entry(w->now);
}

static uint64_t slots_of(const struct sa_sliding_window *w, uint64_t ns)
{
    return sa_min(sa_max((ns + w->slot_ns - 1) / w->slot_ns, 1), SA_SLIDING_WINDOW_SLOTS);
}

size_t sa_sliding_window_min(const struct sa_sliding_window *w, uint64_t ns)
{
    size_t min = w->now;

    for (uint64_t i = 0; i < slots_of(w, ns); i++)
        min = sa_min(min, w->min[slot_at(w, i)]);
    return min;
}

size_t sa_sliding_window_max(const struct sa_sliding_window *w, uint64_t ns)
{
    size_t max = w->now;

    for (uint64_t i = 0; i < slots_of(w, ns); i++)
        max = sa_max(max, w->max[slot_at(w, i)]);
    return max;
}
