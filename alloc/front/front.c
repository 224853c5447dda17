/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The slow paths, top to bottom; see front.h. Each enters the gate, works, polls maintenance and
 * leaves. Frees begin with what is known of the pointer: the class of its page, else its span.
 */
#include "alloc/front/front.h"

#include "alloc/base/fatal.h"
#include "alloc/base/size_class.h"
#include "alloc/front/cpu_cache.h"
#include "alloc/front/deferred.h"
#include "alloc/front/emergency.h"
#include "alloc/front/gate.h"
#include "alloc/front/large.h"
#include "alloc/front/maintain.h"
#include "alloc/os/percpu.h"
#include "alloc/os/rseq.h"
#include "alloc/os/vm.h"
#include "alloc/page_heap/limits.h"
#include "alloc/page_heap/page_heap.h"
#include "pagemap/pagemap.h"
#include "sampling/guarded.h"
#include "sampling/misuse.h"
#include "sampling/sampler.h"

#include <string.h>

/* What is known of a pointer. */
struct block {
    unsigned cls;  /* 0: not of a class */
    bool own_page; /* a sampled object: the span is its own, cls the proxy's */
    struct sa_span
        *span; /* of a large or sampled block; of others only if it had to be looked up */
};

/* What a program may use of a block. Of a guarded one what it asked for: the rest is to show overflows. */
static size_t block_bytes(struct block b)
{
    if (b.own_page && sa_guarded_span(b.span))
        return b.span->requested;
    return b.cls ? sa_size_classes.of[b.cls].size : sa_span_bytes(b.span);
}

/* The smallest class whose objects all have the alignment; 0 if there is none. */
static unsigned class_for(size_t size, size_t align)
{
    unsigned cls;

    if (size > SA_MID_MAX || align > SA_PAGE_BYTES)
        return 0;
    cls = sa_size_class_find(sa_max(size, 1));
    if (align > SA_MIN_ALIGN)
        while (cls < sa_size_classes.count && sa_size_classes.of[cls].size & (align - 1))
            cls++;
    return cls < sa_size_classes.count ? cls : 0;
}

static void front_init_tables(void)
{
    for (size_t i = 0; i <= SA_SMALL_MAX / 16; i++)
        sa_hot.small_class[i] = (uint16_t)SA_CLASS_OFFSET(sa_size_class_find(sa_max(i * 16, 1)));
    for (size_t i = SA_SMALL_MAX / 128; i <= SA_MID_MAX / 128; i++)
        sa_hot.mid_class[i] = (uint16_t)SA_CLASS_OFFSET(sa_size_class_find(i * 128));
    for (unsigned cls = 1; cls < sa_size_classes.count; cls++) {
        const struct sa_class *k = &sa_size_classes.of[cls];
        bool whole_pages = k->map_step != SA_PAGE_BYTES || k->size == SA_PAGE_BYTES;
        size_t period = whole_pages ? SA_PAGE_BYTES : (size_t)k->pages << SA_PAGE_SHIFT;

        sa_hot.of_class[cls].start_mask = period - 1;
        sa_hot.of_class[cls].start_check = whole_pages ? UINT64_MAX / SA_PAGE_BYTES + 1 : k->check;
    }
}

void sa_front_init(size_t cpu_cache_limit)
{
    front_init_tables();
    sa_cpu_cache_init(cpu_cache_limit);
    sa_hot.rseq_offset = sa_rseq.offset;
    sa_hot.mid_limit = SA_MID_MAX + 1;
    sa_store_release(&sa_hot.small_limit, SA_SMALL_MAX + 1);
}

/* Frees what was put aside while a fork was in progress. */
static void front_free_aside(void)
{
    void *p = sa_emergency_take();

    while (SA_UNLIKELY(p != NULL)) {
        void *next = *(void **)p;

        sa_front_free(p);
        p = next;
    }
}

/* A block of a class: an object, or a sampled block for which it stands. */
static void *alloc_small(unsigned cls, size_t size, size_t align)
{
    struct sa_trial trial;
    void *p = sa_cpu_cache_alloc(cls, &trial), *sampled = NULL;

    if (SA_UNLIKELY(trial.won) && p)
        sampled = sa_sampler_take(&trial, cls, p, size, align);
    return sampled ? sampled : p;
}

static void *alloc_any(unsigned cls, size_t size, size_t align, bool *ret_zeroed)
{
    return cls ? alloc_small(cls, size, align) : sa_large_alloc(size, align, ret_zeroed);
}

/* Makes room for a request that has failed. What the caches hold may be all that it takes. */
static void alloc_recover(unsigned cls, size_t size, bool refused)
{
    if (refused) {
        sa_add_relaxed(&sa_limits.hits[SA_LIMIT_HARD], 1);
        if (!sa_limits_hopeless(size))
            sa_limits_released(SA_LIMIT_HARD, sa_maintain_make_room());
    } else { /* out of address space */
        sa_maintain_recover(cls != 0);
    }
}

static void *alloc_inside(size_t size, size_t align, bool zero)
{
    unsigned cls = class_for(size, align);
    uint64_t refusals = sa_load_relaxed(&sa_limits.refused);
    bool zeroed = false, refused;
    void *p = alloc_any(cls, size, align, &zeroed);

    if (SA_UNLIKELY(!p) && size <= PTRDIFF_MAX) {
        refused = sa_load_relaxed(&sa_limits.refused) != refusals;
        alloc_recover(cls, size, refused);
        p = alloc_any(cls, size, align, &zeroed);
        if (refused && p)
            sa_add_relaxed(&sa_limits.shrinks[SA_LIMIT_HARD], 1);
    }
    if (zero && p && !zeroed)
        memset(p, 0, size);
    return p;
}

/* The end of a slow path. */
static void front_leave(void)
{
    sa_maintain_poll();
    sa_gate_leave();
    sa_deferred_run();
}

void *sa_front_alloc(size_t size, size_t align, bool zero)
{
    void *p;

    if (SA_UNLIKELY(!sa_gate_enter()))
        return sa_emergency_alloc(size, align);
    front_free_aside();
    p = alloc_inside(size, align, zero);
    front_leave();
    return p;
}

/*
 * Says what is wrong with a pointer to no class that is not the start of a large block. The map
 * knows only the ends of large and free spans, so the span is looked for from the pointer down.
 */
SA_NORETURN SA_COLD static void block_fault(const void *p, const char *what)
{
    const size_t far_enough = 1ul << 20;
    uintptr_t address = (uintptr_t)p, at = address;
    struct sa_span *s = sa_pagemap_find(address);
    struct sa_found found;

    if (sa_misuse_find(address, &found))
        sa_misuse_pointer(what, p, &found);
    if (!s && sa_page_heap_is_free(&sa_page_heap_ordinary, address))
        sa_fatal(strcmp(what, "invalid free") == 0 ? "double free" : what, p,
                 "lies in memory that is free");
    if (!sa_pagemap_class(address) && address >> SA_ADDRESS_BITS == 0)
        for (size_t i = 0; !s && i < far_enough && at >= SA_PAGE_BYTES; i++, at -= SA_PAGE_BYTES) {
            struct sa_span *below = sa_pagemap_find(at);

            if (below && address < sa_span_end(below))
                s = below;
            else if (below)
                break;
        }
    if (!s)
        sa_fatal(what, p, "was not allocated by salloc");
    if (sa_load_relaxed(&s->state) == SA_SPAN_OBJECTS)
        sa_fatal(what, p, "is inside a block of %u bytes, not its start",
                 sa_size_classes.of[s->cls].size);
    if (sa_load_relaxed(&s->state) != SA_SPAN_LARGE || s->start == address)
        sa_fatal(strcmp(what, "invalid free") == 0 ? "double free" : what, p,
                 "lies in memory that is free");
    if (sa_sampler_find(s, &found))
        sa_misuse_pointer(what, p, &found);
    sa_fatal(what, p, "is inside a block of %zu bytes, not its start", s->requested);
}

/* Finds out what p is; anything but the start of a block ends the program. */
static struct block block_of(const void *p, const char *what)
{
    uintptr_t address = (uintptr_t)p;
    struct block b = {.cls = sa_pagemap_class(address)};

    if (b.cls) {
        b.span = sa_pagemap_span(address);
        if (!b.span || sa_class_index(&sa_size_classes.of[b.cls], address - b.span->start) < 0)
            sa_fatal(what, p, "is inside a block of %u bytes, not its start",
                     sa_size_classes.of[b.cls].size);
        return b;
    }
    b.span = sa_pagemap_find(address);
    if (SA_UNLIKELY(!b.span || b.span->start != address ||
                    sa_load_relaxed(&b.span->state) != SA_SPAN_LARGE) &&
        !(b.span && sa_guarded_span(b.span) && sa_guarded_start(b.span) == address))
        block_fault(p, what);
    b.cls = sa_sampler_class(b.span);
    b.own_page = b.cls != 0;
    if (SA_UNLIKELY(!b.cls && b.span->heap == SA_HEAP_SAMPLED))
        block_fault(p, what); /* another thread has begun to free it */
    return b;
}

static void free_block(struct block b, void *p)
{
    if (b.own_page)
        p = sa_sampler_free(b.span, &b.cls);
    if (b.cls)
        sa_cpu_cache_free(b.cls, p);
    else
        sa_large_free(b.span);
}

void sa_front_free(void *p)
{
    size_t size;

    if (SA_UNLIKELY(sa_emergency_owns(p, &size)))
        return; /* never reused */
    if (SA_UNLIKELY(!sa_gate_enter())) {
        sa_emergency_put_aside(p);
        return;
    }
    free_block(block_of(p, "invalid free"), p);
    front_leave();
}

/* A block is not what a sized free takes it for. */
SA_NORETURN SA_COLD static void sized_fault(struct block b, const void *p, const char *text,
                                            size_t a, size_t size)
{
    struct sa_found found;

    if ((b.own_page || !b.cls) && sa_sampler_find(b.span, &found))
        sa_misuse_sized(p, &found, text, a, size);
    sa_fatal("sized free", p, text, a, size);
}

/*
 * Whether a block was allocated by these arguments, as far as the block can tell. Of a sampled one what was asked for is
 * known; but a program may also name what malloc_usable_size told it.
 */
static void check_sized(struct block b, const void *p, size_t size, size_t align)
{
    bool known = b.own_page || !b.cls;
    size_t is = known ? b.span->requested : sa_size_classes.of[b.cls].size;

    if (known ? size < is || size > (b.cls ? block_bytes(b) : is) : class_for(size, align) != b.cls)
        sized_fault(b, p, "is a block of %zu bytes, freed as one of %zu", is, size);
    /* Without an alignment: what malloc_usable_size says of a guarded block need not lead to its class. */
    if (b.own_page && (align > SA_MIN_ALIGN || !sa_guarded_span(b.span)) &&
        class_for(size, align) != b.cls)
        sized_fault(b, p, "was not allocated with alignment %zu", sa_max(align, 1), 0);
    if (!b.cls && align > 1ul << b.span->align_log && align > SA_MIN_ALIGN)
        sized_fault(b, p, "was not allocated with alignment %zu", align, 0);
}

void sa_front_free_sized(void *p, size_t size, size_t align)
{
    size_t emergency_size;
    struct block b;

    if (SA_UNLIKELY(sa_emergency_owns(p, &emergency_size)))
        return;
    if (SA_UNLIKELY(!sa_gate_enter())) {
        sa_emergency_put_aside(p);
        return;
    }
    b = block_of(p, "invalid free");
    check_sized(b, p, size, align);
    free_block(b, p);
    front_leave();
}

static void *realloc_copy(void *p, size_t old_size, size_t size)
{
    void *q = sa_front_alloc(size, 1, false);

    if (!q)
        return NULL;
    memcpy(q, p, sa_min(old_size, size));
    sa_front_free(p);
    return q;
}

/* Whether a block can take the new size as it is. The block is the caller's: nothing is shared. */
static bool realloc_stays(struct block b, size_t size)
{
    unsigned cls = class_for(size, 1);

    /* A guarded block moves, so that what is left of the old one is guarded, too. */
    if (b.own_page && sa_guarded_span(b.span))
        return size == b.span->requested;
    /* The class must be the one that a sized free of the new size would name. */
    if (b.cls || cls) {
        if (b.own_page && b.cls == cls)
            b.span->requested = size;
        return b.cls == cls;
    }
    if (size > sa_span_bytes(b.span) || size < sa_span_bytes(b.span) / 2)
        return false;
    b.span->requested = size;
    return true;
}

static void *realloc_inside(struct block b, void *p, size_t size)
{
    void *q;

    if (!b.cls && class_for(size, 1) == 0) {
        if (sa_large_resize(b.span, size))
            return p;
        q = sa_large_move(b.span, size);
        if (q)
            return q;
    }
    /* All of it: malloc_usable_size tells the program that it may use the whole block. */
    q = realloc_copy(p, block_bytes(b), size);
    /* Caches and free memory were given back: under a hard limit there may be room now for what is missing. */
    if (SA_UNLIKELY(!q) && sa_limits_active() && !b.cls && class_for(size, 1) == 0 &&
        sa_large_resize(b.span, size))
        return p;
    return q;
}

void *sa_front_realloc(void *p, size_t size)
{
    size_t old_size;
    struct block b;
    void *q;

    if (SA_UNLIKELY(sa_emergency_owns(p, &old_size)))
        return realloc_copy(p, old_size, size);
    b = block_of(p, "invalid realloc");
    if (realloc_stays(b, size))
        return p;
    if (SA_UNLIKELY(!sa_gate_enter())) {
        q = sa_emergency_alloc(size, 1);
        if (q) {
            memcpy(q, p, sa_min(block_bytes(b), size));
            sa_emergency_put_aside(p);
        }
        return q;
    }
    q = realloc_inside(b, p, size);
    front_leave();
    return q;
}

size_t sa_front_size(const void *p, const char *what)
{
    size_t size;

    if (SA_UNLIKELY(sa_emergency_owns(p, &size)))
        return size;
    return block_bytes(block_of(p, what));
}

size_t sa_front_size_if_ours(const void *p)
{
    uintptr_t address = (uintptr_t)p;
    unsigned cls = sa_pagemap_class(address);
    struct sa_span *s;
    size_t size;

    if (sa_emergency_owns(p, &size))
        return size;
    s = cls ? sa_pagemap_span(address) : sa_pagemap_find(address);
    if (!s)
        return 0;
    if (cls)
        return sa_class_index(&sa_size_classes.of[cls], address - s->start) < 0
                   ? 0
                   : sa_size_classes.of[cls].size;
    if (sa_guarded_span(s))
        return sa_guarded_start(s) == address ? s->requested : 0;
    if (sa_load_relaxed(&s->state) != SA_SPAN_LARGE || s->start != address)
        return 0;
    cls = sa_sampler_class(s);
    return cls ? sa_size_classes.of[cls].size : sa_span_bytes(s);
}

size_t sa_front_estimate(size_t size)
{
    unsigned cls = class_for(size, 1);

    if (cls)
        return sa_size_classes.of[cls].size;
    return size > PTRDIFF_MAX ? 0 : sa_align_up(size, sa_max(SA_PAGE_BYTES, sa_vm.page_bytes));
}
