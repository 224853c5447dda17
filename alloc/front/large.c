/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Large blocks; see large.h. The fields of a span in use belong to the owner of its block. Shared
 * words: totals and sa_large_guards, the number of blocks with a guard, are atomic and relaxed. The
 * maxima of guards are constant after start. The page heap has a lock of its own.
 */
#include "alloc/front/large.h"

#include "alloc/base/atomic.h"
#include "alloc/base/bits.h"
#include "alloc/base/fatal.h"
#include "alloc/base/hardening.h"
#include "alloc/base/layout.h"
#include "alloc/base/single_threaded.h"
#include "alloc/cpu_cache/cpu_cache.h"
#include "alloc/hardening/hardened.h"
#include "alloc/os/clock.h"
#include "alloc/os/thread.h"
#include "alloc/os/vm.h"
#include "alloc/page_heap/account/limits.h"
#include "alloc/page_heap/account/peak.h"
#include "alloc/page_heap/page_heap.h"
#include "pagemap/pagemap.h"
#include "sampling/guard/fault_handler.h"
#include "sampling/guard/guard_policy.h"
#include "sampling/guard/pointer_lookup.h"
#include "sampling/guard/sample_quarantine.h"
#include "sampling/sampler/sampler.h"

#include <string.h>

/* Below this many bytes, copying is cheaper than moving pages. */
#define MOVE_MIN (1ul << 20)

/*
 * Up to this many bytes, a block is copied if its new span is partly backed. Moved pages would
 * replace those backed pages, and the kernel would have to fault in pages one by one, where the
 * block came from and where it is freed. A longer block is moved: most of its new span is unbacked,
 * and the backed part would be in memory twice.
 */
#define COPY_MAX (2ul << 20)

/* The maximum of guards where only sampled blocks have them. Each guard takes two mappings. */
#define GUARDS_SAMPLED 256
/* The maximum of guards, unless sa_large_init sets another one. */
#define GUARDS_DEFAULT 8192

static SA_START_DATA size_t guards_max = GUARDS_DEFAULT, guards_sampled = GUARDS_SAMPLED;

SA_RARE void sa_large_init(size_t guards)
{
    guards_max = guards;
    guards_sampled = sa_min(guards, GUARDS_SAMPLED);
}

/* Totals since the start: blocks, and their bytes; atomic, relaxed. */
static uint64_t allocations[2], frees[2];

/* What reports show. */
SA_LAYOUT = {
    SA_LAYOUT_STATE_ALL("large_allocations", allocations),
    SA_LAYOUT_STATE_ALL("large_frees", frees),
};
SA_LAYOUT_STATIC_ADDRESS("large_allocations", allocations);
SA_LAYOUT_STATIC_ADDRESS("large_frees", frees);

/* Adds a block to a total. */
SA_NOINLINE static void large_count(uint64_t *which, size_t bytes)
{
    sa_count_shared(&which[0], 1);
    sa_count_shared(&which[1], bytes);
}

SA_RARE void sa_large_counts(struct sa_large_counts *ret)
{
    ret->allocations = sa_load_relaxed(&allocations[0]);
    ret->allocations_bytes = sa_load_relaxed(&allocations[1]);
    ret->frees = sa_load_relaxed(&frees[0]);
    ret->frees_bytes = sa_load_relaxed(&frees[1]);
}

/* A block that has grown probably grows again: a moved block gets 1 / GROW_FRACTION more room. */
#define GROW_FRACTION 8

/* Makes a block in use a sample, if its decision says so. */
SA_INLINE void large_sample(const struct sa_sampling_decision *decision, struct sa_span *s,
                            size_t size, size_t align) SA_INSIDE_GATE
{
    sa_cpu_cache_note_use();
    if (SA_UNLIKELY(decision->sampled))
        sa_sampler_take_large(decision, s, size, align);
}

/* True if a new block is to end before an inaccessible page. */
static bool large_wants_guard(const struct sa_sampling_decision *decision)
{
    return SA_UNLIKELY(sa_hardening.guards) ||
           (SA_UNLIKELY(decision->sampled) && sa_load_relaxed(&sa_large_guards) < guards_sampled &&
            !sa_limits_keep_all() && sa_fault_may_report() &&
            sa_guard_policy_guard_large(sa_clock_coarse_ns()));
}

/* Ends the sample of a block that stays in use. */
static void large_unsample(struct sa_span *s)
{
    if (SA_UNLIKELY(s->sample != NULL))
        sa_sampler_release_large(s);
}

/* Puts a freed span into the quarantine, inaccessible and without memory. False: the quarantine
 * does not take it. *hidden becomes true if the span may be inaccessible now, whatever the result.
 */
static bool large_quarantine(struct sa_span *s, bool *hidden) SA_INSIDE_GATE
{
    bool quarantined;

    SA_DCHECK(sa_load_relaxed(&s->state) == SA_SPAN_LARGE && !s->sample);
    if (SA_LIKELY(!sa_hardening.quarantine_bytes) || sa_sample_quarantine_paused())
        return false;
    *hidden = true;
    sa_fault_prepare();
    sa_store_relaxed(&s->state, SA_SPAN_QUARANTINED);
    s->moved = 1;
    quarantined = sa_vm_protect((void *)s->start, sa_span_bytes(s), false) &&
                  sa_vm_release((void *)s->start, sa_span_bytes(s));
    /* In this order: once the span is in the quarantine, another thread may take it out. */
    if (quarantined) {
        sa_page_heap_emptied(&sa_page_heap_ordinary, s);
        quarantined = sa_hardened_quarantine_large((void *)s->start);
    }
    if (!quarantined)
        sa_store_relaxed(&s->state, SA_SPAN_LARGE);
    return quarantined;
}

/* Makes the guard of a sampled block accessible, so that the block becomes longer. False: the guard
 * stays. */
SA_COLD static bool large_disarm(struct sa_span *s)
{
    size_t bytes = (size_t)s->guard << SA_PAGE_SHIFT;

    SA_DCHECK(s->guard && sa_load_relaxed(&sa_large_guards));
    if (sa_hardening.guards || !sa_vm_protect((void *)(sa_span_end(s) - bytes), bytes, true))
        return false;
    s->guard = 0;
    sa_sub_relaxed(&sa_large_guards, 1u);
    return true;
}

/* Frees a span, unless the sample quarantine or the quarantine takes it. unbacked: the pages hold
 * no memory. */
static void large_give_back(struct sa_span *s, bool unbacked) SA_INSIDE_GATE
{
    bool hidden = s->guard && !large_disarm(s);

    SA_DCHECK(sa_thread.gate_depth && sa_load_relaxed(&s->state) == SA_SPAN_LARGE);
    large_count(frees, sa_span_bytes(s));
    sa_in_use_add(-(int64_t)sa_span_bytes(s));
    if (SA_UNLIKELY(hidden)) {
        s->moved = 1; /* the page heap maps the span afresh */
        sa_sub_relaxed(&sa_large_guards, 1u);
    }
    /* Marks of the program do not wait in a quarantine: locked pages count there. If the range is
     * lost, the page heap finds that out. */
    if (SA_UNLIKELY(s->moved) && (s->sample || sa_hardening.quarantine_bytes))
        unbacked |= sa_vm_renew((void *)s->start, sa_span_bytes(s), "salloc:heap") == SA_VM_ZEROED;
    if (SA_UNLIKELY(s->sample != NULL) && sa_sampler_quarantine_large(s, unbacked))
        return;
    if (large_quarantine(s, &hidden))
        return;
    if (SA_UNLIKELY(hidden))
        sa_sample_quarantine_return(s, unbacked);
    else
        sa_page_heap_free(&sa_page_heap_ordinary, s, unbacked);
}

/* The pages for a block and its guard, which is a page of the kernel. */
static size_t large_pages_guarded(size_t size, bool guard)
{
    return SA_LIKELY(!guard) ? sa_large_pages(size)
                             : sa_align_up(sa_large_pages(size), sa_vm.page_step) + sa_vm.page_step;
}

SA_RARE size_t sa_large_estimate(size_t size)
{
    return size > PTRDIFF_MAX
               ? 0
               : sa_align_up(large_pages_guarded(size, sa_hardening.guards), sa_vm.page_step)
                     << SA_PAGE_SHIFT;
}

/* Makes the last page of a new block's span inaccessible, if the block leaves that page free and
 * fewer than guards_max blocks have a guard. Otherwise the block becomes longer. */
SA_COLD static void large_guard(struct sa_span *s)
{
    size_t bytes = sa_vm.page_step << SA_PAGE_SHIFT;

    sa_fault_prepare();
    if (s->requested + bytes > sa_span_bytes(s) ||
        sa_load_relaxed(&sa_large_guards) >= guards_max ||
        !sa_vm_protect((void *)(sa_span_end(s) - bytes), bytes, false))
        return;
    s->guard = (uint8_t)sa_vm.page_step;
    sa_add_relaxed(&sa_large_guards, 1u);
}

/* Sets up what shows overflows: the guard, and the pattern in the slack. */
static void large_arm(struct sa_span *s, bool guard)
{
    s->guard = 0;
    if (SA_UNLIKELY(guard))
        large_guard(s);
    SA_DCHECK(s->requested <= sa_span_usable_bytes(s));
    if (sa_large_is_exact(s))
        sa_hardened_arm_large((void *)s->start, s->requested, sa_span_usable_bytes(s));
}

/* Makes a span a block after its sampling decision. Returns the block. */
static void *large_begin(struct sa_span *s, size_t size, size_t align,
                         const struct sa_sampling_decision *decision, bool guard) SA_INSIDE_GATE
{
    SA_DCHECK(sa_thread.gate_depth && s->heap == SA_HEAP_ORDINARY && !s->sample);
    large_count(allocations, sa_span_bytes(s));
    s->requested = size;
    s->origin = sa_caller_origin(align);
    large_arm(s, guard);
    sa_in_use_add((int64_t)sa_span_bytes(s));
    large_sample(decision, s, size, align);
    return (void *)s->start;
}

SA_RARE void *sa_large_begin(struct sa_span *s, size_t size, size_t align)
{
    struct sa_sampling_decision decision;

    sa_sampler_try_large(sa_span_bytes(s), &decision);
    return large_begin(s, size, align, &decision, large_wants_guard(&decision));
}

void *sa_large_alloc(size_t size, size_t align, bool *zero)
{
    size_t align_pages = sa_max(align >> SA_PAGE_SHIFT, 1), pages;
    struct sa_sampling_decision decision;
    struct sa_span *s;
    bool guard;

    if (size > PTRDIFF_MAX || align > PTRDIFF_MAX)
        return NULL;
    /* The decision precedes the request for pages, because a guard takes one more page. That page
     * counts only where all blocks have it. */
    pages = large_pages_guarded(size, sa_hardening.guards);
    sa_sampler_try_large(pages << SA_PAGE_SHIFT, &decision);
    guard = large_wants_guard(&decision);
    s = sa_page_heap_alloc(&sa_page_heap_ordinary, large_pages_guarded(size, guard), align_pages,
                           *zero ? SA_PAGES_ZERO : SA_PAGES_ANY);
    if (SA_UNLIKELY(!s && guard && !sa_hardening.guards)) {
        /* Near a limit there may be room for the block but not for its guard. */
        guard = false;
        s = sa_page_heap_alloc(&sa_page_heap_ordinary, pages, align_pages,
                               *zero ? SA_PAGES_ZERO : SA_PAGES_ANY);
    }
    if (!s)
        return NULL;
    *zero = s->zeroed;
    return large_begin(s, size, align, &decision, guard);
}

SA_RARE void *sa_large_alloc_sampled(size_t size, size_t align, size_t class_bytes,
                                     struct sa_sampling_decision *decision)
{
    struct sa_span *s = sa_page_heap_alloc(&sa_page_heap_ordinary, sa_large_pages(size),
                                           sa_max(align >> SA_PAGE_SHIFT, 1), SA_PAGES_ANY);

    SA_DCHECK(decision->sampled && !sa_hardening.on);
    decision->bytes = class_bytes;
    return s ? large_begin(s, size, align, decision, false) : NULL;
}

void sa_large_free(struct sa_span *s)
{
    large_give_back(s, false);
}

SA_RARE bool sa_large_resize(struct sa_span *s, size_t size)
{
    size_t pages, before = s->pages;
    struct sa_sampling_decision decision;

    if (size > PTRDIFF_MAX)
        return false;
    pages = sa_large_pages(size);
    /* A guarded block that grows moves, because a realloc that fails must leave its length
     * unchanged. */
    if (SA_UNLIKELY(s->guard) && (sa_hardening.guards || pages > s->pages - (size_t)s->guard))
        return false;
    /* A moved block is one mapping, which mremap can move again. A longer block might be two
     * mappings. */
    if (pages > s->pages && s->moved)
        return false;
    if (pages > s->pages && !sa_page_heap_extend(&sa_page_heap_ordinary, s, pages))
        return false;
    /* Room left by earlier growth stays unless the block shrinks by more than 1/4 (2 /
     * GROW_FRACTION). */
    if (pages < s->pages - s->pages / (GROW_FRACTION / 2) && (!s->guard || large_disarm(s)))
        sa_page_heap_shrink(&sa_page_heap_ordinary, s, pages);
    s->requested = size;
    s->origin = 0;
    SA_DCHECK(sa_thread.gate_depth && size <= sa_span_usable_bytes(s));
    if (sa_large_is_exact(s))
        sa_hardened_arm_large((void *)s->start, size, sa_span_usable_bytes(s));
    if (s->pages != before) {
        large_count(allocations, sa_span_bytes(s));
        large_count(frees, before << SA_PAGE_SHIFT);
        large_unsample(s);
        sa_in_use_add(((int64_t)s->pages - (int64_t)before) * SA_PAGE_BYTES);
        /* A resize counts as a free and an allocation: the sample represents the new length. */
        sa_sampler_try_large(sa_span_bytes(s), &decision);
        large_sample(&decision, s, size, 1);
    } else if (SA_UNLIKELY(s->sample != NULL)) {
        sa_sampler_set_requested(s, size);
    }
    return true;
}

SA_RARE void *sa_large_move(struct sa_span *old, size_t size)
{
    size_t bytes = sa_span_usable_bytes(old), pages;
    struct sa_span *s;
    bool copied;

    if (bytes < MOVE_MIN || size < bytes || size > PTRDIFF_MAX / 2 || sa_limits_keep_all())
        return NULL;
    pages = large_pages_guarded(size + size / GROW_FRACTION, sa_hardening.guards);
    /* Only a copy can use a backed span. */
    s = sa_page_heap_alloc(&sa_page_heap_ordinary, pages, 1,
                           bytes <= COPY_MAX ? SA_PAGES_ANY : SA_PAGES_ZERO);
    if (!s)
        return NULL;
    copied = !s->zeroed && bytes <= COPY_MAX;
    if (copied) {
        memcpy((void *)s->start, (void *)old->start, bytes);
    } else if (!sa_vm_move((void *)old->start, (void *)s->start, bytes)) {
        /* Some kernels unmap the target before they detect that they cannot move. A span that is
         * marked as moved is mapped afresh when it is freed. */
        s->moved = 1;
        sa_page_heap_free(&sa_page_heap_ordinary, s, true);
        return NULL;
    }
    s->moved = !copied;
    SA_DCHECK(bytes <= sa_span_bytes(s) && size <= sa_span_bytes(s));
    /* In this order, so that the peak of memory in use does not count the block twice. Where the
     * pages have moved away, the old span reads as zero. */
    large_give_back(old, !copied);
    return sa_large_begin(s, size, 1);
}
