/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks that a program can move; see defragment.h. A move goes past the caches: an object that is
 * freed into a cache is the next that malloc hands out, and its span would stay as it was.
 */
#include "alloc/front/defragment.h"

#include "alloc/base/hardening.h"
#include "alloc/base/size_class.h"
#include "alloc/fork/deferred_calls.h"
#include "alloc/fork/emergency_heap.h"
#include "alloc/fork/fork_gate.h"
#include "alloc/front/block.h"
#include "alloc/middle/central_free_list.h"
#include "alloc/middle/central_move.h"

#include <string.h>

SA_RARE bool sa_front_worth_moving(const void *p)
{
    struct sa_block b;

    if (sa_hardening.on)
        return false;
    sa_block_try(p, &b);
    return b.kind == SA_BLOCK_OBJECT && sa_central_worth_moving(b.span, b.cls);
}

SA_RARE void *sa_front_move(void *p)
{
    struct sa_block b;
    size_t size;
    void *q;

    if (sa_emergency_heap_owns(p, &size))
        return NULL;
    sa_block_find(p, "invalid move", &b);
    if (b.kind != SA_BLOCK_OBJECT || sa_hardening.on || !sa_fork_gate_enter())
        return NULL;
    /* What the program has been given stays as it was: no cache and no counter is concerned. */
    q = sa_central_take_better(b.cls, p);
    if (q) {
        memcpy(q, p, sa_size_classes.of[b.cls].size);
        sa_central_insert(b.cls, &p, 1);
    }
    sa_fork_gate_leave();
    sa_deferred_call_run();
    return q;
}
