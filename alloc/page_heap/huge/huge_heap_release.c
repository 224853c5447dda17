/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the hugepage-aware heap releases memory: by amount and by time; and how it unmaps space.
 * Cached hugepages go first, then free hugepages of regions, then free pages of the filler. System
 * calls run without the lock, on ranges that are moving (H1).
 *
 * What falls without refaults (doc/perf.md, "Findings behind the design"): a compiler that frees
 * most of 62 MiB and goes on has a peak of 177 MiB instead of 157, if 48 MiB are always kept.
 */
#include "alloc/page_heap/huge/huge_heap_release.h"

#include "alloc/base/bits.h"
#include "alloc/base/fatal.h"
#include "alloc/os/vm.h"
#include "alloc/page_heap/account/limits.h"
#include "alloc/page_heap/huge/huge_heap_internal.h"
#include "alloc/page_heap/huge/huge_limits.h"
#include "alloc/page_heap/huge/huge_regions.h"

/* More free pages than SPARE_PAGES, and than half of those in use, are released at once, except for
 * those that refaults keep. More than heap_excess, and than a quarter of those in use, are released
 * in any case; see heap_surplus. */
#define SPARE_PAGES  (8ul << 20 >> SA_PAGE_SHIFT)
#define EXCESS_PAGES (48ul << 20 >> SA_PAGE_SHIFT)

/* While memory is wasted (heap_is_lean), no more than this is kept, or this part of what is in
 * use. */
#define LEAN_PAGES    (1ul << 20 >> SA_PAGE_SHIFT)
#define LEAN_FRACTION 32

/* Refaults from which on the heap may keep so much that a thread should release it. */
#define SWING_PAGES (16ul << 20 >> SA_PAGE_SHIFT)

/*
 * The free pages that a hugepage must have: to be released at once, by time, or by request. A
 * hugepage that loses its first pages costs speed. One that has lost some gives up single pages by
 * time: at once, each would take a system call.
 */
#define BREAK_MIN 32
static const struct sa_filler_least at_once = {2 * BREAK_MIN, BREAK_MIN}, by_time = {1, BREAK_MIN},
                                    by_request = {1, 1};
/* At once, while memory is wasted. */
#define LEAN_BREAK_MIN 8
static const struct sa_filler_least at_once_lean = {2 * LEAN_BREAK_MIN, LEAN_BREAK_MIN};

#define HEAP_KEEP   (1048576 >> SA_PAGE_SHIFT)    /* pages that a tick leaves: 1 MiB */
#define STEP_PAGES  (16ul << 20 >> SA_PAGE_SHIFT) /* that a tick or a step releases: about 1 ms */
#define RELEASE_RUN 8   /* hugepages released by one system call, at most */
#define GATHER_RUN  512 /* the same where address space has run out */
#define KEPT_MAX    128 /* hugepages that are kept for a program that uses nothing else */

SA_START_DATA unsigned char sa_page_heap_swings, sa_page_heap_due;
uint64_t sa_page_heap_lean_ns;

static void *hugepage_address(size_t hugepage)
{
    return (void *)(hugepage << SA_HUGE_SHIFT);
}

/* Free pages of the filler that are held back for demand that is likely to return, and the span
 * that was freed last, if the filler has it: for the filler, it is in use. */
static size_t heap_held_back(const struct sa_huge_heap *h) SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    size_t held = sa_huge_filler_held_back(&h->filler);

    if (held && h->recent && sa_hugepage_map_tracker(&h->owners, h->recent->start >> SA_HUGE_SHIFT))
        held += h->recent->pages;
    return held;
}

/*
 * Cached hugepages that are likely to be needed. They are no surplus, however much is free. They
 * are at most as many as the memory in use, so that none stay when all is freed. The exception is
 * demand that was reached again and again: it keeps up to KEPT_MAX hugepages.
 */
SA_RARE static size_t heap_needed(const struct sa_huge_heap *h) SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    size_t needed = sa_huge_cache_needed(&h->cache), used = h->in_use_pages / SA_HUGE_PAGES;

    if (sa_limits_active())
        return 0;
    if (needed <= used)
        return needed;
    return sa_huge_cache_comes_again(&h->cache) ? sa_max(used, sa_min(needed, KEPT_MAX)) : used;
}

/* Whether the heap keeps little, because much memory is wasted. */
static bool heap_is_lean(const struct sa_huge_heap *h) SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    return h->now_ns < sa_load_relaxed(&sa_page_heap_lean_ns);
}

/* Free backed pages between spans, in hugepages and regions that are partly used. They are no
 * surplus, but time releases them if they stay unused. At most as many as are in use; none if
 * memory is short, or wasted. */
static size_t heap_between(const struct sa_huge_heap *h) SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    return sa_limits_active() || heap_is_lean(h)
               ? 0
               : sa_min(sa_huge_filler_backed(&h->filler) + sa_huge_regions_backed(h->regions),
                        h->in_use_pages);
}

SA_RARE void sa_huge_heap_refaulted(struct sa_huge_heap *h, size_t before)
{
    size_t used = sa_huge_heap_used(h),
           missing = used > before ? sa_min(used - before, h->refault_credit) : 0;

    SA_DCHECK(missing <= h->refault_credit);
    h->refault_credit -= missing;
    h->refaults += missing;
    if (SA_UNLIKELY(missing && h->refaults > SWING_PAGES))
        sa_store_relaxed(&sa_page_heap_swings, 1);
}

/* What refaults keep at most: as much less as a fall in the last second exceeds EXCESS_PAGES. Of so
 * large a rise it would save a part only, and it stays if the process does nothing more. */
static size_t heap_excess(const struct sa_huge_heap *h) SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    size_t top = sa_max(h->top[0], h->top[1]), fell = top - sa_min(top, h->in_use_pages);
    size_t less = fell > EXCESS_PAGES ? sa_min(fell, 2 * EXCESS_PAGES) - EXCESS_PAGES : 0;

    return sa_max(EXCESS_PAGES - less, SPARE_PAGES);
}

/* The pages to release at once. */
SA_RARE static size_t heap_surplus(struct sa_huge_heap *h) SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    size_t backed = sa_huge_heap_backed(h) + (h->recent ? h->recent->pages : 0), cached, surplus;
    size_t needed = heap_needed(h), keep = sa_max(heap_excess(h), h->in_use_pages / 4);

    keep += needed * SA_HUGE_PAGES + heap_between(h);
    /* At most twice the peak of the last second: no more can have been in use and missing. */
    h->refaults = sa_min(h->refaults, sa_max(EXCESS_PAGES, 2 * h->cache.peak * SA_HUGE_PAGES));
    keep = sa_min(keep, sa_max(SPARE_PAGES, h->in_use_pages / 2) + h->refaults);
    if (heap_is_lean(h))
        keep = sa_min(keep, sa_max(LEAN_PAGES, h->in_use_pages / LEAN_FRACTION));
    keep = sa_max(keep, needed * SA_HUGE_PAGES); /* release_pages does not release these */
    h->cache.ceiling = keep / SA_HUGE_PAGES;
    if (h->refused)
        return 0;
    cached = sa_huge_cache_surplus(&h->cache) * SA_HUGE_PAGES;
    surplus = sa_max(cached, backed > keep ? backed - keep : 0);
    surplus = surplus ? sa_min(surplus, backed - heap_held_back(h)) : 0;
    return sa_limits_active() ? sa_max(surplus, sa_huge_heap_limit_surplus(h)) : surplus;
}

/* Notes that a moving range was unmapped. */
static void heap_unmapped(struct sa_huge_heap *h, size_t start, size_t n)
    SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    SA_DCHECK(h->moving >= n && h->mapped >= n);
    sa_huge_heap_set_advice(h, start, n, SA_ADVICE_NONE);
    h->moving -= n;
    h->mapped -= n;
    sa_heap_space_unmapped(&h->space, start << SA_HUGE_SHIFT);
}

SA_RARE bool sa_huge_heap_move(struct sa_huge_heap *h, const struct sa_huge_moving *m)
{
    void *p = hugepage_address(m->hugepage);
    size_t bytes = m->n * SA_HUGE_BYTES;
    bool locked = sa_load_relaxed(&sa_vm.locked), ok, unmapped;

    SA_DCHECK(m->n > 0 && m->n <= h->moving && h->items > 0);
    sa_lock_release(&h->lock, SA_RANK_PAGE_HEAP);
    ok = !locked && sa_vm_release(p, bytes);
    /* Memory that the kernel does not release goes with its address space. So does locked memory:
     * unbacked address space counts against the limit of locked memory. */
    unmapped = !ok && (locked || sa_load_relaxed(&sa_vm.keeps_locked));
    if (unmapped)
        sa_vm_unmap_space(p, bytes);
    sa_lock_acquire(&h->lock, SA_RANK_PAGE_HEAP);
    h->items--;
    h->refused = !ok && !unmapped;
    if (unmapped) {
        heap_unmapped(h, m->hugepage, m->n);
        h->stats.released_ever_bytes += bytes;
        return true;
    }
    h->moving -= m->n;
    if (ok) {
        sa_huge_map_insert(&h->released, &h->nodes, m->hugepage, m->n, h->now_ns);
        h->stats.released_ever_bytes += bytes;
    } else {
        sa_huge_cache_restore(&h->cache, m->hugepage, m->n);
    }
    return ok;
}

/* Releases cached hugepages, at most `run` in one system call. Returns the pages released. */
static size_t release_cached(struct sa_huge_heap *h, size_t pages, size_t run, bool periodic)
    SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    size_t done = 0;

    while (done < pages) {
        size_t want = (pages - done + SA_HUGE_PAGES - 1) / SA_HUGE_PAGES;
        struct sa_huge_moving m = {.n = 0};

        if (!sa_huge_heap_ready(h, 2))
            break;
        m.n = sa_huge_cache_evict(&h->cache, sa_min(want, run), &m.hugepage);
        if (!m.n)
            break;
        h->moving += m.n;
        h->items++;
        if (!sa_huge_heap_move(h, &m))
            break;
        sa_huge_cache_note_released(&h->cache, m.n, periodic);
        done += m.n * SA_HUGE_PAGES;
    }
    return done;
}

/* Releases free pages of the filler's hugepages. Returns how many. */
SA_RARE static size_t release_filler(struct sa_huge_heap *h, size_t pages,
                                     struct sa_filler_least least) SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    size_t done = 0;
    bool ok = true;

    while (ok && done < pages) {
        uint64_t released[SA_HUGE_WORDS] = {0};
        struct sa_huge_moving moving = {.n = 0};
        struct sa_filler_release r;
        bool empty;
        uint32_t count;

        if (!sa_huge_heap_ready(h, 2) || !sa_huge_filler_begin(&h->filler, least, &r))
            break;
        if (r.tracker->range.taken > r.pages && sa_huge_heap_thp_disable(h, r.tracker->hugepage))
            r.tracker->no_hugepages = true;
        sa_lock_release(&h->lock, SA_RANK_PAGE_HEAP);
        ok = sa_huge_heap_release_runs(r.tracker->hugepage, r.mask, released);
        sa_lock_acquire(&h->lock, SA_RANK_PAGE_HEAP);
        h->refused = !ok;
        count = sa_huge_filler_end(&h->filler, &r, released, &empty);
        done += count;
        h->stats.released_ever_bytes += (uint64_t)count << SA_PAGE_SHIFT;
        if (empty && ok)
            sa_huge_heap_evict(h, r.tracker, &moving);
        else if (empty) /* in the cache all of it would count as backed */
            sa_huge_heap_emptied(h, r.tracker, &moving);
        if (moving.n)
            ok = sa_huge_heap_move(h, &moving) && ok;
    }
    return done;
}

/* Releases up to `pages` pages, of hugepages with at least so many free ones. periodic: also cached
 * hugepages that are likely to be needed. */
SA_RARE static size_t release_pages(struct sa_huge_heap *h, size_t pages,
                                    struct sa_filler_least least, bool periodic)
    SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    size_t cached = h->cache.map.hugepages - (periodic ? 0 : heap_needed(h));
    size_t done = release_cached(h, sa_min(pages, cached * SA_HUGE_PAGES), RELEASE_RUN, periodic);

    if (done < pages && !h->refused)
        done += sa_huge_heap_release_regions(h, pages - done, least.other);
    if (done < pages && !h->refused)
        done += release_filler(h, pages - done, least);
    return done;
}

SA_RARE void sa_huge_heap_settle(struct sa_huge_heap *h, const struct sa_huge_moving moving[2])
{
    size_t surplus;

    SA_DCHECK_HELD(SA_RANK_PAGE_HEAP);
    for (int i = 0; i < 2; i++)
        if (SA_UNLIKELY(moving[i].n))
            sa_huge_heap_move(h, &moving[i]);
    if (sa_limits_active()) /* what exceeds a limit is surplus, too */
        sa_huge_heap_note(h);
    h->flushed = false;
    surplus = heap_surplus(h);
    if (SA_UNLIKELY(surplus)) {
        sa_huge_heap_flush(h); /* what was freed last may complete a hugepage */
        h->refault_credit +=
            release_pages(h, heap_surplus(h), heap_is_lean(h) ? at_once_lean : at_once, false);
    }
    if (SA_UNLIKELY(surplus || moving[0].n || moving[1].n))
        sa_huge_heap_note(h);
    sa_lock_release(&h->lock, SA_RANK_PAGE_HEAP);
}

SA_RARE size_t sa_huge_heap_release(struct sa_huge_heap *h, size_t bytes)
{
    size_t pages = sa_align_up(bytes, SA_PAGE_BYTES) >> SA_PAGE_SHIFT, done;

    sa_lock_acquire(&h->lock, SA_RANK_PAGE_HEAP);
    sa_huge_heap_flush(h);
    h->refused = false;
    done = release_pages(h, pages, by_request, true);
    sa_huge_heap_note(h);
    sa_lock_release(&h->lock, SA_RANK_PAGE_HEAP);
    return done << SA_PAGE_SHIFT;
}

SA_RARE size_t sa_huge_heap_gather(struct sa_huge_heap *h)
{
    size_t done;

    sa_lock_acquire(&h->lock, SA_RANK_PAGE_HEAP);
    sa_huge_heap_flush(h);
    h->refused = false;
    done = release_cached(h, h->cache.map.hugepages * SA_HUGE_PAGES, GATHER_RUN, true);
    if (!h->refused)
        done += sa_huge_heap_release_regions(h, SIZE_MAX, SA_HUGE_PAGES + 1);
    sa_huge_heap_note(h);
    sa_lock_release(&h->lock, SA_RANK_PAGE_HEAP);
    return done << SA_PAGE_SHIFT;
}

/* Unmaps unbacked ranges, the longest first, up to that many hugepages. */
SA_RARE static void heap_unmap(struct sa_huge_heap *h, size_t hugepages)
{
    size_t done = 0;

    sa_lock_acquire(&h->lock, SA_RANK_PAGE_HEAP);
    sa_huge_heap_flush(h);
    while (done < hugepages) {
        const struct sa_huge_node *node = sa_huge_map_longest(&h->released);
        size_t start, n;

        if (!node)
            break;
        n = sa_min(node->length, hugepages - done);
        start = node->start + node->length - n;
        sa_huge_map_take_at(&h->released, &h->nodes, start, n);
        h->moving += n;
        sa_lock_release(&h->lock, SA_RANK_PAGE_HEAP);
        sa_vm_unmap_space(hugepage_address(start), n * SA_HUGE_BYTES);
        sa_lock_acquire(&h->lock, SA_RANK_PAGE_HEAP);
        heap_unmapped(h, start, n);
        sa_huge_heap_note(h); /* meanwhile another thread may have counted it as used */
        done += n;
    }
    sa_lock_release(&h->lock, SA_RANK_PAGE_HEAP);
}

SA_RARE void sa_huge_heap_unmap(struct sa_huge_heap *h, size_t bytes)
{
    heap_unmap(h, (bytes + SA_HUGE_BYTES - 1) / SA_HUGE_BYTES);
}

SA_RARE bool sa_huge_heap_make_room(struct sa_huge_heap *h, size_t pages)
{
    size_t hugepages = pages / SA_HUGE_PAGES + 1, released;

    sa_lock_acquire(&h->lock, SA_RANK_PAGE_HEAP);
    released = h->released.hugepages;
    sa_lock_release(&h->lock, SA_RANK_PAGE_HEAP);
    if (released < hugepages)
        return false;
    heap_unmap(h, hugepages);
    return true;
}

/* The pages of cache, regions and filler that lay unused since the last tick. */
static void heap_idle(const struct sa_huge_heap *h, size_t idle[3]) SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    idle[0] = sa_min(h->cache.low_water, h->cache.map.hugepages) * SA_HUGE_PAGES;
    idle[1] = sa_min(h->region_low_water, sa_huge_regions_backed(h->regions));
    idle[2] = sa_min(h->filler.low_water, sa_huge_filler_backed(&h->filler));
}

static void heap_set_time(struct sa_huge_heap *h, uint64_t now_ns) SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    if (!h->started_ns)
        h->started_ns = now_ns;
    h->now_ns = now_ns;
    h->top[1] = h->top[0];
    h->top[0] = h->in_use_pages;
    sa_huge_cache_tick(&h->cache, now_ns);
    sa_huge_filler_tick(&h->filler, now_ns);
}

/* Forgets a part of the refaults, but not what was used since the last tick. */
static void heap_forget(struct sa_huge_heap *h, size_t unused, double part)
    SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    size_t absent = h->refaults - sa_min(h->refaults, sa_huge_heap_backed(h));

    h->refault_credit -= (size_t)((double)h->refault_credit * part);
    h->refaults -= sa_min((size_t)((double)h->refaults * part / 2), sa_max(unused, absent));
    if (h->refaults <= SWING_PAGES)
        sa_store_relaxed(&sa_page_heap_swings, 0);
}

/* Makes a part of the idle pages due: the time since the last tick, divided by SA_RELEASE_NS. The
 * low-water marks begin anew. */
static void heap_make_due(struct sa_huge_heap *h, double part) SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    size_t keep = HEAP_KEEP;

    heap_idle(h, h->due);
    h->cache.low_water = h->cache.map.hugepages;
    h->region_low_water = sa_huge_regions_backed(h->regions);
    h->filler.low_water = sa_huge_filler_backed(&h->filler);
    for (int i = 2; i >= 0; i--) { /* HEAP_KEEP pages stay, in the filler if it has as many */
        size_t kept = sa_min(keep, h->due[i]);

        h->due[i] = (size_t)((double)(h->due[i] - kept) * part);
        keep -= kept;
    }
    h->due[2] = sa_huge_filler_may_release(&h->filler, h->due[2]);
    heap_forget(h, h->due[0] + h->due[1] + h->due[2], part);
}

/* Releases idle pages of a kind. They lie unused no more: the low-water mark falls with them. */
SA_RARE static size_t release_idle(struct sa_huge_heap *h, int kind, size_t pages)
    SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    size_t *low = kind == 0   ? &h->cache.low_water
                  : kind == 1 ? &h->region_low_water
                              : &h->filler.low_water;
    size_t before = *low, done, gone;

    if (!pages || h->refused)
        return 0;
    done = kind == 0   ? release_cached(h, pages, RELEASE_RUN, true)
           : kind == 1 ? sa_huge_heap_release_regions(h, pages, BREAK_MIN)
                       : release_filler(h, pages, by_time);
    gone = kind == 0 ? done / SA_HUGE_PAGES : done;
    *low = sa_min(*low, before - sa_min(before, gone));
    return done;
}

static bool heap_has_due(const struct sa_huge_heap *h) SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    return h->due[0] | h->due[1] | h->due[2];
}

/* Releases up to `pages` of the pages that are due and have lain unused since they are. */
SA_RARE static void heap_release_due(struct sa_huge_heap *h, size_t pages)
    SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    size_t idle[3];

    heap_idle(h, idle);
    for (int i = 0; i < 3 && pages; i++) {
        size_t want = sa_min(sa_min(h->due[i], idle[i]), pages), done = release_idle(h, i, want);

        h->due[i] = done && done >= want ? h->due[i] - sa_min(h->due[i], done) : 0;
        pages -= sa_min(pages, done);
    }
}

SA_RARE bool sa_huge_heap_step(struct sa_huge_heap *h)
{
    bool more;

    sa_lock_acquire(&h->lock, SA_RANK_PAGE_HEAP);
    heap_release_due(h, STEP_PAGES);
    sa_huge_heap_note(h);
    more = heap_has_due(h);
    sa_lock_release(&h->lock, SA_RANK_PAGE_HEAP);
    return more;
}

bool sa_huge_heap_tick(struct sa_huge_heap *h, uint64_t now_ns)
{
    uint64_t elapsed;
    size_t left;

    sa_lock_acquire(&h->lock, SA_RANK_PAGE_HEAP);
    sa_huge_heap_flush(h);
    h->refused = false;
    if (SA_UNLIKELY(heap_has_due(h)))
        heap_release_due(h, SIZE_MAX); /* no step came by */
    elapsed = now_ns > h->now_ns ? sa_min(now_ns - h->now_ns, SA_RELEASE_NS) : 0;
    heap_set_time(h, sa_max(now_ns, h->now_ns));
    sa_huge_cache_shrink(&h->cache);
    h->collapse_round = (struct sa_collapse_round){.begun = false};
    heap_make_due(h, (double)elapsed / (double)SA_RELEASE_NS);
    h->refused = false;
    if (SA_UNLIKELY(heap_has_due(h)))
        heap_release_due(h, elapsed < SA_RELEASE_NS ? STEP_PAGES : SIZE_MAX);
    sa_store_relaxed(&sa_page_heap_due, heap_has_due(h));
    sa_huge_heap_note(h);
    left = h->cache.map.hugepages * SA_HUGE_PAGES + sa_huge_regions_backed(h->regions);
    if (sa_huge_filler_can_release(&h->filler, by_time))
        left += sa_huge_filler_backed(&h->filler);
    SA_VALIDATE(sa_huge_heap_validate(h));
    sa_lock_release(&h->lock, SA_RANK_PAGE_HEAP);
    /* After a failed mapping, others (stacks, files) need address space, too. */
    if (SA_UNLIKELY(sa_load_relaxed(&sa_vm.map_failures)))
        heap_unmap(h, SIZE_MAX);
    return left > HEAP_KEEP + HEAP_KEEP / 4;
}

SA_RARE void sa_huge_heap_set_skip(struct sa_huge_heap *h, enum sa_skip which, uint64_t seconds)
{
    sa_lock_acquire(&h->lock, SA_RANK_PAGE_HEAP);
    sa_store_relaxed(&h->filler.skip_s[which], sa_min(seconds, SA_SKIP_MAX_S));
    sa_lock_release(&h->lock, SA_RANK_PAGE_HEAP);
}
