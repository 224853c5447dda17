/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The slow paths; see slow_path.h. Each enters the fork gate, works, polls maintenance and leaves.
 * A thread that the gate refuses uses the emergency heap. A free first finds out what the pointer
 * is (block.h).
 */
#include "alloc/front/slow_path.h"

#include "alloc/base/fatal.h"
#include "alloc/base/hardening.h"
#include "alloc/base/size_class.h"
#include "alloc/cpu_cache/cpu_cache.h"
#include "alloc/fork/deferred_calls.h"
#include "alloc/fork/emergency_heap.h"
#include "alloc/fork/fork_gate.h"
#include "alloc/front/block.h"
#include "alloc/front/block_fault.h"
#include "alloc/front/fast_path.h"
#include "alloc/front/large.h"
#include "alloc/front/mismatch.h"
#include "alloc/front/realign.h"
#include "alloc/front/realloc_in_place.h"
#include "alloc/front/sampled.h"
#include "alloc/hardening/hardened.h"
#include "alloc/hardening/watched.h"
#include "alloc/maintain/maintenance.h"
#include "alloc/middle/central_mix.h"
#include "alloc/middle/mixed_returns.h"
#include "alloc/hot/hot.h"
#include "alloc/os/thread.h"
#include "alloc/page_heap/account/limits.h"
#include "sampling/guard/guarded.h"
#include "sampling/sampler/sampler.h"

#include <string.h>

/* Frees the blocks that were put aside while a fork was in progress. */
static void front_free_aside(void) SA_INSIDE_GATE
{
    void *p = sa_emergency_heap_take();

    while (SA_UNLIKELY(p != NULL)) {
        void *next = *(void **)p;

        sa_front_free_aligned(p, 0);
        p = next;
    }
}

/*
 * Hardened: makes a block from a free object: a sampled or a watched block, for which the object
 * stands, or the object itself. A guarded block has no room for a canary. decision: may be NULL.
 */
SA_COLD static void *begin_hardened(struct sa_sampling_decision *decision, void *object,
                                    unsigned cls, size_t size, size_t align)
{
    struct sa_block b = {.kind = SA_BLOCK_OBJECT};
    void *p;

    SA_DCHECK(sa_hardening.on && cls && object);
    sa_hardened_check_free(object, cls);
    if (decision && decision->sampled) {
        sa_fork_gate_assert_inside();
        p = sa_sampled_begin(decision, cls, object, 0, size, align);
        if (p)
            sa_block_try(p, &b);
    } else {
        p = sa_watched_try(cls, object, size, align);
        if (p)
            b.kind = SA_BLOCK_GUARDED;
    }
    p = p ? p : object;
    if (b.kind != SA_BLOCK_GUARDED)
        sa_hardened_begin(p, cls, size, sa_caller_origin(align));
    if (sa_hardening.junk_new)
        sa_junk_fill_new(p, size);
    return p;
}

/* Hardened: the fast path with checks. NULL: the slow path decides. */
static void *alloc_checked(size_t size, size_t align, bool zero)
{
    unsigned cls = sa_block_class(size, align);
    void *object = cls ? sa_percpu_pop(cls) : NULL, *p;

    if (!object)
        return NULL;
    p = begin_hardened(NULL, object, cls, size, align);
    return zero ? memset(p, 0, sa_front_size_if_ours(p)) : p;
}

/* Allocates a block of a class: an object, or a sampled block for which it stands. */
static void *alloc_small(unsigned cls, size_t size, size_t align,
                         struct sa_sampling_decision *decision) SA_INSIDE_GATE
{
    bool bare = SA_UNLIKELY(decision->sampled) && !sa_sampled_needs_object(cls, decision);
    void *object, *sampled;

    if (bare && (sampled = sa_sampled_begin_without(decision, cls, size, align)))
        return sampled;
    object = sa_realign(cls, sa_cpu_cache_alloc(cls, decision), align);
    sa_cpu_cache_note_use();
    if (!object || bare)
        return object;
    if (SA_UNLIKELY(sa_hardening.on))
        return begin_hardened(decision, object, cls, size, align);
    return sa_sampled_or(decision, cls, object, 0, size, align);
}

/* Allocates a block of a class (0: a large block). *zero: as for sa_large_alloc. */
static void *alloc_any(unsigned cls, size_t size, size_t align,
                       struct sa_sampling_decision *decision, bool *zero) SA_INSIDE_GATE
{
    if (!cls)
        return sa_large_alloc(size, align, zero);
    *zero = false;
    return alloc_small(cls, size, align, decision);
}

/* Makes room for a request that has failed, also from the caches. refused: by the hard limit. */
static void alloc_recover(unsigned cls, size_t size, bool refused) SA_INSIDE_GATE
{
    SA_DCHECK(sa_thread.gate_depth);
    if (refused) {
        sa_add_relaxed(&sa_limits.hits[SA_LIMIT_HARD], 1);
        if (!sa_limits_hopeless(size))
            sa_limits_released(SA_LIMIT_HARD, sa_maintenance_make_room());
    } else { /* out of address space or memory */
        sa_maintenance_recover(cls != 0);
    }
}

static void *alloc_inside(unsigned cls, size_t size, size_t align,
                          struct sa_sampling_decision *decision, bool zero) SA_INSIDE_GATE
{
    uint64_t refusals = sa_load_relaxed(&sa_limits.refused);
    bool zeroed = zero, claimed = decision->sampled, refused;
    void *p = alloc_any(cls, size, align, decision, &zeroed);

    if (SA_UNLIKELY(!p) && size <= PTRDIFF_MAX) {
        refused = sa_load_relaxed(&sa_limits.refused) != refusals;
        alloc_recover(cls, size, refused);
        zeroed = zero;
        decision->sampled = claimed; /* decisions of the failed attempt are void */
        p = alloc_any(cls, size, align, decision, &zeroed);
        if (refused && p)
            sa_add_relaxed(&sa_limits.shrinks[SA_LIMIT_HARD], 1);
    }
    if (zero && p && !zeroed) /* to the end: a program may use all that malloc_usable_size says */
        memset(p, 0,
               cls && !decision->sampled && !sa_hardening.on ? sa_size_classes.of[cls].size
                                                             : sa_front_size_if_ours(p));
    return p;
}

/* Ends a slow path. now_ns: the coarse clock, read in this slow path. */
static void front_leave(uint64_t now_ns) SA_LEAVES_GATE
{
    sa_maintenance_poll(now_ns);
    sa_fork_gate_leave();
    sa_deferred_call_run();
}

void *sa_front_alloc(size_t size, size_t align, bool zero)
{
    unsigned cls = sa_block_class(size, align);
    struct sa_sampling_decision decision;
    void *p;

    SA_DCHECK(!align || sa_is_pow2(align));
    if (SA_UNLIKELY(sa_hardening.on) && (p = alloc_checked(size, align, zero)))
        return p;
    sa_cpu_cache_claim(cls, &decision); /* before anything else: see there */
    sa_thread.caller_kind &= (uint8_t)~SA_CALLER_RAISED;
    if (SA_UNLIKELY(!sa_fork_gate_enter()))
        return sa_emergency_heap_alloc(size, align);
    front_free_aside();
    p = alloc_inside(cls, size, align, &decision, zero);
    front_leave(sa_sampling_now(&decision));
    return p;
}

/* Hardened: as free_block; also ends the canary and fills the block with junk. */
SA_COLD static void free_hardened(const struct sa_block *b, void *p) SA_INSIDE_GATE
{
    switch (b->kind) {
    case SA_BLOCK_OBJECT:
        sa_hardened_end(p, b->cls);
        sa_hardened_free(p, b->cls);
        break;
    case SA_BLOCK_SAMPLED:
        sa_hardened_end(p, b->cls);
        sa_sampled_end(b->span);
        break;
    case SA_BLOCK_GUARDED:
        if (!sa_hardening.watch || !sa_watched_end(b->span))
            sa_sampled_end(b->span);
        break;
    default:
        sa_large_free(b->span);
        break;
    }
}

/* Gives an object back to its mixed span at once (mixed_returns.h). False: it is to go to a cache.
 * The stack that would have taken it may have it: freed before, when the lock was taken. */
static bool free_returned(const struct sa_block *b, void *p) SA_INSIDE_GATE
{
    sa_cpu_cache_check_freed(b->cls, p);
    if (!sa_central_mix_return(b->cls, p))
        return false;
    sa_cpu_cache_count_free(b->cls);
    return true;
}

/* Frees a block, inside the gate. */
static void free_block(const struct sa_block *b, void *p) SA_INSIDE_GATE
{
    SA_DCHECK(sa_thread.gate_depth && b->kind != SA_BLOCK_NONE);
    if (SA_UNLIKELY(sa_hardening.on)) {
        free_hardened(b, p);
        return;
    }
    switch (b->kind) {
    case SA_BLOCK_OBJECT:
        if (SA_LIKELY(!sa_load_relaxed(&sa_mixed_returns)) || !free_returned(b, p))
            sa_cpu_cache_free(b->cls, p);
        break;
    case SA_BLOCK_LARGE:
        sa_large_free(b->span);
        break;
    default:
        sa_sampled_end(b->span);
        break;
    }
}

/* Frees a block outside the gate, after the fork. Without room for a link it stays allocated. */
SA_RARE static SA_NOINLINE void put_aside(const struct sa_block *b, void *p)
{
    if (sa_fork_gate_is_lost()) { /* the gate stays closed for good */
        if ((b->kind == SA_BLOCK_OBJECT || b->kind == SA_BLOCK_LARGE) && !sa_hardening.on)
            sa_emergency_heap_free(p, sa_block_bytes(b));
    } else if (sa_block_bytes(b) >= sizeof(void *)) {
        sa_emergency_heap_put_aside(p);
    }
}

/* Frees a block that was looked up and checked. */
static void free_known(const struct sa_block *b, void *p)
{
    if (SA_UNLIKELY(!sa_fork_gate_enter())) {
        put_aside(b, p);
        return;
    }
    free_block(b, p);
    front_leave(sa_clock_coarse_ns());
}

/* Reports what was written beside a guarded block, before the gate, because a report may take long.
 * Hardened, the end of the block does it, and ends the program. */
SA_INLINE void check_guarded(const struct sa_block *b)
{
    if (SA_UNLIKELY(b->kind == SA_BLOCK_GUARDED) && !sa_hardening.inspect)
        sa_guarded_check(b->span);
}

void sa_front_free_aligned(void *p, size_t align)
{
    struct sa_block b;
    size_t size;

    if (SA_UNLIKELY(sa_emergency_heap_owns(p, &size))) {
        sa_emergency_heap_free(p, size);
        return;
    }
    sa_block_find(p, "invalid free", &b);
    sa_mismatch_check(&b, p, align, false);
    check_guarded(&b);
    free_known(&b, p);
}

SA_RARE void sa_front_free_sized(void *p, size_t size, size_t align)
{
    size_t emergency_size;
    struct sa_block b;

    if (SA_UNLIKELY(sa_emergency_heap_owns(p, &emergency_size))) {
        sa_emergency_heap_free(p, emergency_size);
        return;
    }
    sa_block_find(p, "invalid free", &b);
    sa_mismatch_check_sized(&b, p, size, align);
    sa_mismatch_check(&b, p, sa_max(align, 1), false);
    check_guarded(&b);
    free_known(&b, p);
}

/* Allocates a block with the content of another one, which the caller frees. */
static SA_NOINLINE void *realloc_copy(const void *p, size_t old_size, size_t size)
{
    void *q = sa_front_alloc(size, 1, false);

    return q ? memcpy(q, p, sa_min(old_size, size)) : NULL;
}

/* Moves a block off the emergency heap, or within it. */
SA_RARE static SA_NOINLINE void *realloc_emergency(void *p, size_t old_size, size_t size)
{
    void *q = realloc_copy(p, old_size, size);

    if (q)
        sa_emergency_heap_free(p, old_size);
    return q;
}

/* Notes the new size of a sampled block; its record keeps the old one if the gate refuses. */
SA_COLD static void realloc_sampled(struct sa_span *s, size_t size)
{
    SA_DCHECK(sa_load_relaxed(&s->state) == SA_SPAN_LARGE);
    if (s->requested != size && sa_fork_gate_enter()) {
        sa_sampler_set_requested(s, size);
        sa_fork_gate_leave();
    }
    s->requested = size;
    s->origin = 0;
}

/* Changes the size of a large block that stays on its span. */
static void realloc_large(const struct sa_block *b, void *p, size_t size)
{
    if (SA_UNLIKELY(b->span->sample != NULL))
        realloc_sampled(b->span, size);
    /* In this order: for a signal handler that checks the block, either slack is intact. */
    if (SA_UNLIKELY(b->exact))
        sa_hardened_arm_large(p, size, sa_span_usable_bytes(b->span));
    sa_signal_fence();
    b->span->requested = size;
    b->span->origin = 0;
}

/* True if a block has taken the new size in place. The caller owns the block: nothing is shared. */
static bool realloc_stays(const struct sa_block *b, void *p, size_t size)
{
    unsigned cls = sa_block_class(size, 1);
    size_t bytes;

    switch (b->kind) {
    case SA_BLOCK_GUARDED: /* moves, so that uses of the old block fault */
        return size == b->span->requested;
    case SA_BLOCK_LARGE:
        bytes = sa_span_usable_bytes(b->span);
        if (cls || size > bytes || size < bytes / 2)
            return false;
        realloc_large(b, p, size);
        return true;
    default:
        break;
    }
    /* The class must be the one that a sized free of the new size would name. */
    if (b->cls != cls)
        return false;
    if (b->kind == SA_BLOCK_SAMPLED)
        realloc_sampled(b->span, size);
    if (SA_UNLIKELY(b->exact))
        sa_hardened_change(p, cls, size, 0);
    return true;
}

static void *realloc_inside(const struct sa_block *b, void *p, size_t size) SA_INSIDE_GATE
{
    void *q;

    SA_DCHECK(sa_thread.gate_depth && size);
    if (!b->cls && sa_block_class(size, 1) == 0) {
        if (sa_large_resize(b->span, size))
            return p;
        q = sa_large_move(b->span, size);
        if (q)
            return q;
    }
    if (size > sa_block_bytes(b) && (q = sa_realloc_in_place(b, p, size)))
        return q;
    /* The whole block: malloc_usable_size tells the program that it may use all of it. */
    q = realloc_copy(p, sa_block_bytes(b), size);
    if (q) {
        free_known(b, p);
        return q;
    }
    /* The failed allocation has released caches and free memory. Under a hard limit there may be
     * room now for the pages that are missing. */
    return sa_limits_active() && !b->cls && sa_block_class(size, 1) == 0 &&
                   sa_large_resize(b->span, size)
               ? p
               : NULL;
}

void *sa_front_realloc(void *p, size_t size)
{
    size_t old_size;
    struct sa_block b;
    void *q;

    SA_DCHECK(p && size);
    if (SA_UNLIKELY(sa_emergency_heap_owns(p, &old_size)))
        return realloc_emergency(p, old_size, size);
    sa_block_find(p, "invalid realloc", &b);
    sa_mismatch_check(&b, p, 1, true);
    sa_thread.caller_kind &= (uint8_t)~SA_CALLER_RAISED;
    if (realloc_stays(&b, p, size))
        return p;
    check_guarded(&b);
    if (SA_UNLIKELY(!sa_fork_gate_enter())) {
        q = sa_emergency_heap_alloc(size, 1);
        if (q) {
            memcpy(q, p, sa_min(sa_block_bytes(&b), size));
            put_aside(&b, p);
        }
        return q;
    }
    q = realloc_inside(&b, p, size);
    front_leave(sa_clock_coarse_ns());
    return q;
}

SA_RARE size_t sa_front_size(const void *p, const char *what)
{
    struct sa_block b;
    size_t size;

    if (SA_UNLIKELY(sa_emergency_heap_owns(p, &size)))
        return size;
    if (SA_UNLIKELY(sa_hardening.inspect)) {
        sa_block_find(p, what, &b);
        return sa_block_bytes(&b);
    }
    sa_block_try(p, &b);
    if (b.kind != SA_BLOCK_NONE && (b.cls || b.kind == SA_BLOCK_LARGE))
        return sa_block_bytes(&b);
    if (sa_mismatch_on)
        sa_block_report(p, what);
    return 0;
}

SA_RARE size_t sa_front_size_if_ours(const void *p)
{
    struct sa_block b;
    size_t size;

    if (sa_emergency_heap_owns(p, &size))
        return size;
    sa_block_try(p, &b);
    if (b.kind == SA_BLOCK_NONE)
        return 0;
    if (b.kind == SA_BLOCK_GUARDED)
        return sa_guarded_bytes(b.span);
    if (b.cls)
        return sa_hardening.canaries ? sa_hardened_size_if_used(p, b.cls)
                                     : sa_size_classes.of[b.cls].size;
    return sa_large_is_exact(b.span) ? sa_max(b.span->requested, 1) : sa_span_usable_bytes(b.span);
}

SA_RARE size_t sa_front_estimate(size_t size)
{
    unsigned cls = sa_block_class(size, 1);

    return cls ? sa_size_classes.of[cls].size : sa_large_estimate(size);
}
