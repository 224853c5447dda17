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
#include "alloc/middle/mixed_spans.h"
#include "pagemap/pagemap.h"

#include <string.h>

/* Does not call sa_block_try, which finds blocks of all kinds and their classes. Programs ask for
 * each of their blocks: 2 to 12 ns instead of 5 to 50 (2-CPU VM, Intel Xeon, 2026-11-27). */
SA_RARE bool sa_front_worth_moving(const void *p)
{
    uintptr_t address = (uintptr_t)p;
    unsigned cls = sa_pagemap_class(address);
    const struct sa_span *s;

    if (sa_hardening.on)
        return false;
    if (cls) {
        s = sa_pagemap_span(address);
        if (s &&
            sa_class_index(&sa_size_classes.of[cls], address - sa_load_relaxed(&s->start)) >= 0)
            return sa_central_worth_moving(s, cls);
    }
    return sa_mixed_is_sparse(address);
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
