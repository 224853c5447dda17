/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The steps of fuzz targets above the central free lists that do not depend on the target: blocks
 * of the model (live_blocks.h) that come from a central list, go back to it, or move to another
 * span.
 */
#ifndef SA_TEST_FUZZ_CENTRAL_STEPS_H
#define SA_TEST_FUZZ_CENTRAL_STEPS_H

#include "alloc/middle/central_move.h"
#include "test/fuzz/live_blocks.h"

static inline void central_take_aligned(struct fuzz_input *in)
{
    struct live_class *c = live_pick(in);
    void *object = live_room(c, 1) ? sa_central_remove_aligned(c->cls) : NULL;

    if (object)
        live_add(c, object, SA_PAGE_BYTES);
}

static inline void central_give(struct fuzz_input *in)
{
    struct live_class *c = live_pick(in);
    size_t n = 1 + fuzz_below(in, LIVE_BATCH);
    void *objs[LIVE_BATCH];

    n = live_remove_some(in, c, objs, n);
    if (n)
        sa_central_insert(c->cls, objs, n);
}

/* An object moves to a span that is at least as full, and not its own. mixed: it may also move to
 * or from a mixed span, where it has the least alignment. */
static inline void central_move(struct fuzz_input *in, bool mixed)
{
    struct live_class *c = live_pick(in);
    const struct sa_span *from, *to;
    void *better, *object;
    size_t i;

    if (!c->count || !live_room(c, 1))
        return;
    i = fuzz_below(in, c->count);
    from = sa_pagemap_span((uintptr_t)c->blocks[i].p);
    better = sa_central_take_better(c->cls, c->blocks[i].p);
    if (!better)
        return;
    to = sa_pagemap_span((uintptr_t)better);
    FUZZ_CHECK(to != from && (mixed || to->live >= from->live));
    live_add(c, better, mixed ? 16 : SA_MIXED_ALIGN);
    object = live_remove(c, i);
    sa_central_insert(c->cls, &object, 1);
}

/* All blocks go back, one by one. */
static inline void central_give_all(void)
{
    for (unsigned i = 0; i < LIVE_CLASSES; i++)
        while (live.classes[i].count) {
            void *object = live_remove(&live.classes[i], live.classes[i].count - 1);

            sa_central_insert(live.classes[i].cls, &object, 1);
        }
}

#endif
