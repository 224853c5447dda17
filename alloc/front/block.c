/* SPDX-License-Identifier: Apache-2.0 */
/* Lookup of pointers, and sizes of blocks; see block.h. No state. */
#include "alloc/front/block.h"

#include "alloc/base/bits.h"
#include "alloc/base/fatal.h"
#include "alloc/base/hardening.h"
#include "alloc/base/origin.h"
#include "alloc/base/size_class.h"
#include "alloc/front/block_fault.h"
#include "alloc/front/large.h"
#include "alloc/hardening/hardened.h"
#include "alloc/middle/mixed_spans.h"
#include "alloc/page_heap/page_heap.h"
#include "pagemap/pagemap.h"
#include "sampling/guard/guarded.h"
#include "sampling/sampler/sampler.h"

/* Looks for a block on a mixed span. It comes before any look at the state of a span: other threads
 * join and cut mixed spans meanwhile, and use the records again. */
SA_RARE SA_NOINLINE static void block_lookup_mixed(uintptr_t address, struct sa_block *b)
{
    unsigned cls = sa_mixed_class(address);

    if (!cls)
        return;
    b->cls = cls;
    b->kind = SA_BLOCK_OBJECT;
    b->span = sa_pagemap_span(address);
}

/* Finds kind, class, span and origin. The class of the page is looked up first, because only
 * objects on spans of their class have one. `exact` is 0. */
SA_INLINE struct sa_block block_lookup(uintptr_t address)
{
    struct sa_block b = {.cls = sa_pagemap_class(address), .origin = SA_ORIGIN_UNKNOWN};

    if (b.cls) {
        b.span = sa_pagemap_span(address);
        if (b.span && sa_class_index(&sa_size_classes.of[b.cls],
                                     address - sa_load_relaxed(&b.span->start)) >= 0)
            b.kind = SA_BLOCK_OBJECT;
        else if (sa_load_relaxed(&sa_mixed_any)) /* the span may have become mixed just now */
            block_lookup_mixed(address, &b);
        return b;
    }
    if (sa_load_relaxed(&sa_mixed_any)) {
        block_lookup_mixed(address, &b);
        if (b.kind != SA_BLOCK_NONE)
            return b;
    }
    b.span = sa_pagemap_find(address);
    if (!b.span)
        return b;
    switch (sa_load_relaxed(&b.span->state)) {
    case SA_SPAN_LARGE:
        if (b.span->start != address)
            return b;
        b.kind = SA_BLOCK_LARGE;
        if (b.span->heap == SA_HEAP_SAMPLED) {
            b.kind = SA_BLOCK_SAMPLED;
            b.cls = sa_sampler_class(b.span);
        }
        break;
    case SA_SPAN_GUARDED:
        if (sa_guarded_start(b.span) != address)
            return b;
        b.kind = SA_BLOCK_GUARDED;
        b.cls = sa_guarded_class(b.span);
        break;
    default:
        return b;
    }
    b.origin = b.span->origin;
    return b;
}

/* Hardened: checks the bytes behind the block, and sets `exact` and `origin` where the block knows
 * them. */
SA_COLD static void block_inspect(struct sa_block *b, const void *p, const char *what)
{
    switch (b->kind) {
    case SA_BLOCK_OBJECT:
    case SA_BLOCK_SAMPLED:
        if (!sa_hardening.canaries)
            return;
        b->exact = sa_hardened_size(p, b->cls, what);
        if (b->kind == SA_BLOCK_OBJECT)
            b->origin = (uint8_t)sa_hardened_origin(p, b->cls);
        return;
    case SA_BLOCK_LARGE:
        if (!sa_large_is_exact(b->span))
            return;
        sa_hardened_check_large(p, b->span->requested, sa_span_usable_bytes(b->span));
        b->exact = sa_max(b->span->requested, 1);
        return;
    default: /* guarded blocks are checked when they are freed */
        return;
    }
}

void sa_block_find(const void *p, const char *what, struct sa_block *ret)
{
    struct sa_block b = block_lookup((uintptr_t)p);

    /* Of a sampled block without a class: another thread has begun to free it. */
    if (SA_UNLIKELY(b.kind == SA_BLOCK_NONE || (!b.cls && b.kind == SA_BLOCK_SAMPLED)))
        sa_block_fault(p, what);
    *ret = b;
    if (SA_UNLIKELY(sa_hardening.inspect))
        block_inspect(ret, p, what);
    SA_DCHECK((ret->kind == SA_BLOCK_LARGE) == !ret->cls && ret->span);
    SA_DCHECK(ret->kind != SA_BLOCK_LARGE || ret->span->heap == SA_HEAP_ORDINARY);
}

SA_RARE void sa_block_try(const void *p, struct sa_block *ret)
{
    *ret = block_lookup((uintptr_t)p);
}

size_t sa_block_bytes(const struct sa_block *b)
{
    SA_DCHECK(b->kind != SA_BLOCK_NONE && (b->cls || b->kind == SA_BLOCK_LARGE));
    if (b->kind == SA_BLOCK_GUARDED)
        return sa_guarded_bytes(b->span); /* the bytes behind show overflows */
    if (b->exact)
        return b->exact;
    return b->cls ? sa_size_classes.of[b->cls].size : sa_span_usable_bytes(b->span);
}

unsigned sa_block_class(size_t size, size_t align)
{
    unsigned cls;

    SA_DCHECK(!align || sa_is_pow2(align));
    if (size > SA_MID_MAX - sa_hardening.tail || align > SA_PAGE_BYTES)
        return 0;
    cls = sa_size_class_find(sa_max(size, 1) + sa_hardening.tail);
    if (align > SA_MIN_ALIGN)
        while (cls < sa_size_classes.count && sa_size_classes.of[cls].size & (align - 1))
            cls++;
    return cls < sa_size_classes.count ? cls : 0;
}
