/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the hugepage-aware heap releases memory: by amount and by time; and how it unmaps space.
 * Cached hugepages go first, then free hugepages of regions, then free pages of the filler. System
 * calls run without the lock, on ranges that are moving (H1).
 */
#include "alloc/page_heap/huge/huge_heap_release.h"

#include "alloc/base/bits.h"
#include "alloc/base/fatal.h"
#include "alloc/os/vm.h"
#include "alloc/page_heap/account/limits.h"
#include "alloc/page_heap/huge/huge_heap_internal.h"
#include "alloc/page_heap/huge/huge_heap_surplus.h"
#include "alloc/page_heap/huge/huge_limits.h"
#include "alloc/page_heap/huge/huge_regions.h"

/*
 * The free pages that a hugepage must have: to be released at once, by time, or by request. A
 * hugepage that loses its first pages costs speed. One that has lost some gives up single pages by
 * time: at once, each would take a system call.
 */
#define BREAK_MIN 32
static const struct sa_filler_least by_time = {1, BREAK_MIN}, by_request = {1, 1};
/* At once, while memory is wasted, and after a fall that frees most: little will need what is left
 * of hugepages. */
#define LEAN_BREAK_MIN 4

#define HEAP_KEEP   (1048576 >> SA_PAGE_SHIFT)    /* pages that a tick leaves: 1 MiB */
#define STEP_PAGES  (16ul << 20 >> SA_PAGE_SHIFT) /* that a tick or a step releases: about 1 ms */
#define RELEASE_RUN 8   /* hugepages released by one system call, at most */
#define GATHER_RUN  512 /* the same where address space has run out */

SA_START_DATA unsigned char sa_page_heap_due;

static void *hugepage_address(size_t hugepage)
{
    return (void *)(hugepage << SA_HUGE_SHIFT);
}

/* Notes that a moving range was unmapped. */
SA_RARE static void heap_unmapped(struct sa_huge_heap *h, size_t start, size_t n)
    SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    SA_DCHECK(h->moving >= n && h->mapped >= n);
    sa_huge_heap_set_advice(h, start, n, SA_ADVICE_NONE);
    h->moving -= n;
    h->mapped -= n;
    sa_heap_space_unmapped(&h->space, start << SA_HUGE_SHIFT, n * SA_HUGE_BYTES);
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
    size_t cached = h->cache.map.hugepages - (periodic ? 0 : sa_huge_heap_needed(h));
    size_t done = release_cached(h, sa_min(pages, cached * SA_HUGE_PAGES), RELEASE_RUN, periodic);

    if (done < pages && !h->refused)
        done += sa_huge_heap_release_regions(h, pages - done, least.other);
    if (done < pages && !h->refused)
        done += release_filler(h, pages - done, least);
    return done;
}

static struct sa_filler_least heap_least(const struct sa_huge_heap *h)
    SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    uint32_t least = LEAN_BREAK_MIN;

    if (sa_huge_heap_is_lean(h))
        least = sa_min(LEAN_BREAK_MIN << h->lean_more, BREAK_MIN);
    else if (!sa_huge_heap_fell_most(h))
        least = BREAK_MIN;
    return (struct sa_filler_least){2 * least, least};
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
    surplus = sa_huge_heap_surplus(h);
    if (SA_UNLIKELY(surplus)) {
        sa_huge_heap_flush(h); /* what was freed last may complete a hugepage */
        h->refault_credit += release_pages(h, sa_huge_heap_surplus(h), heap_least(h), false);
    }
    if (SA_UNLIKELY(surplus || moving[0].n || moving[1].n))
        sa_huge_heap_note(h);
    sa_lock_release(&h->lock, SA_RANK_PAGE_HEAP);
    /* Locked, all that is mapped is in memory. */
    if (SA_UNLIKELY(surplus) && sa_vm_is_locked())
        heap_unmap(h, SIZE_MAX);
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
static void heap_idle(const struct sa_huge_heap *h, size_t idle[SA_IDLE_KINDS])
    SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    idle[SA_IDLE_CACHED] = sa_min(h->cache.low_water, h->cache.map.hugepages) * SA_HUGE_PAGES;
    idle[SA_IDLE_REGIONS] = sa_min(h->region_low_water, sa_huge_regions_backed(h->regions));
    idle[SA_IDLE_FILLER] = sa_min(h->filler.low_water, sa_huge_filler_backed(&h->filler));
}

static void heap_set_time(struct sa_huge_heap *h, uint64_t now_ns) SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    if (!h->started_ns)
        h->started_ns = now_ns;
    h->now_ns = now_ns;
    h->top[1] = h->top[0];
    h->top[0] = h->in_use_pages;
    if (SA_UNLIKELY(h->all_falls))
        sa_huge_heap_forget_falls(h);
    if (SA_UNLIKELY(sa_load_relaxed(&sa_page_heap_fall) != SA_FALL_NONE)) /* it may end now */
        sa_huge_heap_note_fall(h);
    if (SA_UNLIKELY(h->lean_missed | h->lean_more))
        sa_huge_heap_tick_lean(h);
    sa_huge_cache_tick(&h->cache, now_ns);
    sa_huge_filler_tick(&h->filler, now_ns);
}

/* Makes a part of the idle pages due: the time since the last tick, divided by SA_RELEASE_NS. The
 * low-water marks begin anew. */
static void heap_make_due(struct sa_huge_heap *h, double part) SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    size_t keep = sa_max(HEAP_KEEP, sa_limits_keep());

    heap_idle(h, h->due);
    h->cache.low_water = h->cache.map.hugepages;
    h->region_low_water = sa_huge_regions_backed(h->regions);
    h->filler.low_water = sa_huge_filler_backed(&h->filler);
    /* These pages stay, in the filler if it has as many. */
    for (int i = SA_IDLE_FILLER; i >= 0; i--) {
        size_t kept = sa_min(keep, h->due[i]);

        h->due[i] = (size_t)((double)(h->due[i] - kept) * part);
        keep -= kept;
    }
    if (SA_UNLIKELY(h->refault_credit | h->refaults))
        sa_huge_heap_forget(
            h, h->due[SA_IDLE_CACHED] + h->due[SA_IDLE_REGIONS] + h->due[SA_IDLE_FILLER], part);
}

/* The low-water mark of a kind; for cached hugepages it counts hugepages. */
static size_t *heap_low_water(struct sa_huge_heap *h, int kind) SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    switch (kind) {
    case SA_IDLE_CACHED:
        return &h->cache.low_water;
    case SA_IDLE_REGIONS:
        return &h->region_low_water;
    default:
        return &h->filler.low_water;
    }
}

static size_t release_kind(struct sa_huge_heap *h, int kind, size_t pages)
    SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    switch (kind) {
    case SA_IDLE_CACHED:
        return release_cached(h, pages, RELEASE_RUN, true);
    case SA_IDLE_REGIONS:
        return sa_huge_heap_release_regions(h, pages, BREAK_MIN);
    default:
        return release_filler(h, pages, by_time);
    }
}

/* Releases idle pages of a kind. They lie unused no more: the low-water mark falls with them. */
SA_RARE static size_t release_idle(struct sa_huge_heap *h, int kind, size_t pages)
    SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    size_t *low = heap_low_water(h, kind), before = *low, done, gone;

    if (!pages || h->refused)
        return 0;
    done = release_kind(h, kind, pages);
    gone = kind == SA_IDLE_CACHED ? done / SA_HUGE_PAGES : done;
    *low = sa_min(*low, before - sa_min(before, gone));
    return done;
}

static bool heap_has_due(const struct sa_huge_heap *h) SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    return h->due[SA_IDLE_CACHED] | h->due[SA_IDLE_REGIONS] | h->due[SA_IDLE_FILLER];
}

/* Releases up to `pages` of the pages that are due and have lain unused since they are. */
SA_RARE static void heap_release_due(struct sa_huge_heap *h, size_t pages)
    SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    size_t idle[SA_IDLE_KINDS];

    heap_idle(h, idle);
    if (sa_limits_keep_all())
        pages = 0;
    for (int i = 0; i < SA_IDLE_KINDS && pages; i++) {
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
    size_t left, keep = sa_max(HEAP_KEEP, sa_limits_keep());

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
    /* After a failed mapping, others (stacks, files) need address space, too. Locked, all that is
     * mapped is in memory. */
    if (SA_UNLIKELY(sa_load_relaxed(&sa_vm.map_failures) || sa_vm_is_locked()))
        heap_unmap(h, SIZE_MAX);
    return left > keep && left - keep > keep / 4;
}

SA_RARE void sa_huge_heap_prepare(struct sa_huge_heap *h)
{
    sa_lock_acquire(&h->lock, SA_RANK_PAGE_HEAP);
    sa_huge_heap_touch_records(h, h->first, h->end - h->first);
    sa_lock_release(&h->lock, SA_RANK_PAGE_HEAP);
}
