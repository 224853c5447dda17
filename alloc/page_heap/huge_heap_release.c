/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the hugepage-aware heap gives memory back: by amount, by time, and address space; see huge_heap.h.
 * The order is: cached hugepages, free hugepages of regions, free pages of the filler's. System calls
 * are made without the lock, on ranges that are out of reach meanwhile (H1).
 */
#include "alloc/page_heap/huge_heap.h"

#include "alloc/base/bits.h"
#include "alloc/os/vm.h"
#include "alloc/page_heap/limits.h"

#define HEAP_KEEP   (1048576 >> SA_PAGE_SHIFT) /* a tick leaves this much */
#define RELEASE_RUN 8                          /* hugepages of one system call at most */
#define UNMAP_LEAST 1

static void *hugepage_address(size_t hugepage)
{
    return (void *)(hugepage << SA_HUGE_SHIFT);
}

size_t sa_huge_heap_region_backed(const struct sa_huge_heap *h)
{
    size_t pages = 0;

    for (struct sa_huge_region *r = h->regions; r; r = r->next)
        pages += sa_huge_region_backed(r);
    return pages;
}

/* Free pages of the filler that are kept, and with them the span that was freed last, which it takes for used. */
static size_t heap_held_back(const struct sa_huge_heap *h)
{
    size_t held = sa_huge_filler_held_back(&h->filler);

    if (held && h->recent && sa_huge_heap_tracker(h, h->recent->start >> SA_HUGE_SHIFT))
        held += h->recent->pages;
    return held;
}

size_t sa_huge_heap_excess(struct sa_huge_heap *h)
{
    size_t keep = sa_max(SA_HUGE_EXCESS_PAGES, h->in_use_pages / 4);
    size_t backed = sa_huge_heap_backed(h) + (h->recent ? h->recent->pages : 0), cached, excess;

    h->cache.ceiling = keep / SA_HUGE_PAGES;
    if (h->refused)
        return 0;
    cached = sa_huge_cache_excess(&h->cache) * SA_HUGE_PAGES;
    excess = sa_max(cached, backed > keep ? backed - keep : 0);
    excess = excess ? sa_min(excess, backed - heap_held_back(h)) : 0;
    return sa_limits_active() ? sa_max(excess, sa_huge_heap_limit_excess(h)) : excess;
}

bool sa_huge_heap_move(struct sa_huge_heap *h, const struct sa_huge_moving *m)
{
    void *p = hugepage_address(m->hugepage);
    size_t bytes = m->n * SA_HUGE_BYTES;
    enum sa_vm_renewal renewal;
    bool ok;

    sa_lock_release(&h->lock, SA_RANK_PAGE_HEAP);
    if (m->renew)
        renewal = sa_vm_renew(p, bytes, h->space.name);
    else
        renewal = sa_vm_release(p, bytes) ? SA_VM_ZEROED : SA_VM_KEPT;
    ok = renewal == SA_VM_ZEROED;
    sa_lock_acquire(&h->lock, SA_RANK_PAGE_HEAP);
    h->moving -= m->n;
    h->items--;
    h->refused = !ok;
    if (ok) {
        sa_huge_map_insert(&h->released, &h->nodes, m->hugepage, m->n, h->now_ns);
        h->stats.released_ever_bytes += bytes;
    } else if (renewal == SA_VM_KEPT) {
        sa_huge_cache_restore(&h->cache, m->hugepage, m->n);
    } else {
        h->mapped -= m->n; /* nobody may use it any more */
    }
    return ok;
}

/* Cached hugepages; pages released. */
static size_t release_cached(struct sa_huge_heap *h, size_t pages, bool periodic)
{
    size_t done = 0;

    while (done < pages) {
        size_t want = (pages - done + SA_HUGE_PAGES - 1) / SA_HUGE_PAGES;
        struct sa_huge_moving m = {.renew = false};

        if (!sa_huge_heap_ready(h, 2))
            break;
        m.n = sa_huge_cache_shed(&h->cache, sa_min(want, RELEASE_RUN), &m.hugepage);
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

/* A region that nobody uses and that holds no memory is free hugepages again. Unlinked; may drop the lock. */
static void region_drop(struct sa_huge_heap *h, struct sa_huge_region *r)
{
    struct sa_huge_moving moving = {
        .hugepage = r->hugepage, .n = SA_REGION_HUGEPAGES, .renew = true};
    bool advised = r->kept_out != 0;

    for (size_t i = 0; i < SA_REGION_HUGEPAGES; i++)
        sa_huge_owner_set(&h->owners, r->hugepage + i, 0);
    r->next = h->unused_regions;
    h->unused_regions = r;
    if (advised) { /* the region's item becomes the moving range's */
        sa_huge_cache_unuse(&h->cache, SA_REGION_HUGEPAGES);
        h->moving += SA_REGION_HUGEPAGES;
        sa_huge_heap_move(h, &moving);
    } else {
        h->items--;
        sa_huge_heap_put(h, moving.hugepage, SA_REGION_HUGEPAGES, true);
    }
}

static void drop_empty_regions(struct sa_huge_heap *h)
{
    struct sa_huge_region **link = &h->regions, *r;

    while ((r = *link)) {
        if (r->range.taken || r->clear_pages < SA_REGION_PAGES) {
            link = &r->next;
        } else {
            *link = r->next;
            region_drop(h, r);
            link = &h->regions; /* they may have changed */
        }
    }
}

/* Releases the pages of one hugepage that are marked, run by run; those that went are in done. No lock held. */
static bool release_runs(size_t hugepage, const uint64_t *mask, uint64_t *done)
{
    uintptr_t start = hugepage << SA_HUGE_SHIFT;
    uint32_t end;

    for (uint32_t at = sa_bits_next(mask, SA_HUGE_PAGES, 0, true); at < SA_HUGE_PAGES;
         at = sa_bits_next(mask, SA_HUGE_PAGES, end, true)) {
        end = sa_bits_next(mask, SA_HUGE_PAGES, at, false);
        if (!sa_vm_release((void *)(start + ((uintptr_t)at << SA_PAGE_SHIFT)),
                           (size_t)(end - at) << SA_PAGE_SHIFT))
            return false;
        sa_bits_fill(done, at, end - at, true);
    }
    return true;
}

/* Free pages of regions. A region is not dropped while pages of it move: they count as taken. */
static size_t release_regions(struct sa_huge_heap *h, size_t pages, uint32_t least)
{
    struct sa_huge_region *r = h->regions;
    size_t done = 0;
    bool ok = true;

    while (r && ok && done < pages) {
        uint64_t released[SA_HUGE_WORDS] = {0};
        struct sa_region_release release;
        size_t hugepage;
        uint32_t count;
        bool advise;

        if (!sa_huge_region_begin(r, least, &release)) {
            r = r->next;
            continue;
        }
        hugepage = r->hugepage + release.index;
        advise = h->thp == SA_THP_ALWAYS && !release.empty &&
                 sa_huge_region_keep_out(r, release.index, true);
        sa_lock_release(&h->lock, SA_RANK_PAGE_HEAP);
        if (advise)
            sa_vm_no_hugepages(hugepage_address(hugepage), SA_HUGE_BYTES);
        ok = release_runs(hugepage, release.mask, released);
        sa_lock_acquire(&h->lock, SA_RANK_PAGE_HEAP);
        h->refused = !ok;
        sa_huge_region_end(r, &release, released, h->now_ns);
        count = sa_bits_count(released, 0, SA_HUGE_PAGES);
        h->region_low_water = sa_min(h->region_low_water, sa_huge_heap_region_backed(h));
        h->stats.released_ever_bytes += (uint64_t)count << SA_PAGE_SHIFT;
        done += count;
    }
    drop_empty_regions(h);
    return done;
}

/* Free pages of the filler's hugepages. */
static size_t release_filler(struct sa_huge_heap *h, size_t pages, uint32_t least)
{
    size_t done = 0;
    bool ok = true;

    while (ok && done < pages) {
        uint64_t released[SA_HUGE_WORDS] = {0};
        struct sa_huge_moving moving = {.n = 0};
        struct sa_filler_release r;
        bool keep_out, empty;
        uint32_t count;

        if (!sa_huge_heap_ready(h, 2) || !sa_huge_filler_begin(&h->filler, least, &r))
            break;
        /* What is left would otherwise be made a hugepage again by the kernel, free pages and all. */
        keep_out =
            h->thp == SA_THP_ALWAYS && !r.tracker->no_hugepages && r.tracker->range.taken > r.pages;
        r.tracker->no_hugepages |= keep_out;
        sa_lock_release(&h->lock, SA_RANK_PAGE_HEAP);
        if (keep_out)
            sa_vm_no_hugepages(hugepage_address(r.tracker->hugepage), SA_HUGE_BYTES);
        ok = release_runs(r.tracker->hugepage, r.mask, released);
        sa_lock_acquire(&h->lock, SA_RANK_PAGE_HEAP);
        h->refused = !ok;
        count = sa_bits_count(released, 0, SA_HUGE_PAGES);
        done += count;
        h->stats.released_ever_bytes += (uint64_t)count << SA_PAGE_SHIFT;
        empty = sa_huge_filler_end(&h->filler, &r, released);
        if (empty) {
            sa_huge_heap_evict(h, r.tracker, &moving);
            if (moving.n)
                ok = sa_huge_heap_move(h, &moving) && ok;
        }
    }
    return done;
}

size_t sa_huge_heap_release_pages(struct sa_huge_heap *h, size_t pages, uint32_t least,
                                  bool periodic)
{
    size_t done = release_cached(h, pages, periodic);

    if (done < pages && !h->refused)
        done += release_regions(h, pages - done, least);
    if (done < pages && !h->refused)
        done += release_filler(h, pages - done, least);
    return done;
}

/* After memory was given back: what is too much goes on to the system. Drops the lock. */
void sa_huge_heap_settle(struct sa_huge_heap *h, const struct sa_huge_moving moving[2])
{
    size_t excess;

    for (int i = 0; i < 2; i++)
        if (SA_UNLIKELY(moving[i].n))
            sa_huge_heap_move(h, &moving[i]);
    excess = sa_huge_heap_excess(h);
    if (SA_UNLIKELY(excess)) {
        sa_huge_heap_flush(h);
        sa_huge_heap_release_pages(h, excess, SA_HUGE_BREAK_LEAST, false);
    }
    sa_huge_heap_note(h);
    sa_lock_release(&h->lock, SA_RANK_PAGE_HEAP);
}

size_t sa_huge_heap_release(struct sa_huge_heap *h, size_t bytes)
{
    size_t pages = sa_align_up(bytes, SA_PAGE_BYTES) >> SA_PAGE_SHIFT, done;

    sa_lock_acquire(&h->lock, SA_RANK_PAGE_HEAP);
    sa_huge_heap_flush(h);
    h->refused = false;
    done = sa_huge_heap_release_pages(h, pages, 1, true);
    sa_huge_heap_note(h);
    sa_lock_release(&h->lock, SA_RANK_PAGE_HEAP);
    return done << SA_PAGE_SHIFT;
}

/* Unmaps released ranges, the longest first, up to so many hugepages. */
static void heap_unmap(struct sa_huge_heap *h, size_t hugepages)
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
        sa_huge_heap_note(h); /* before it is not mapped any more */
        sa_lock_release(&h->lock, SA_RANK_PAGE_HEAP);
        sa_vm_unmap(hugepage_address(start), n * SA_HUGE_BYTES);
        sa_lock_acquire(&h->lock, SA_RANK_PAGE_HEAP);
        h->moving -= n;
        h->mapped -= n;
        sa_heap_space_unmapped(&h->space, start << SA_HUGE_SHIFT);
        done += n;
    }
    sa_lock_release(&h->lock, SA_RANK_PAGE_HEAP);
}

void sa_huge_heap_unmap(struct sa_huge_heap *h, size_t bytes)
{
    heap_unmap(h, (bytes + SA_HUGE_BYTES - 1) / SA_HUGE_BYTES);
}

bool sa_huge_heap_make_room(struct sa_huge_heap *h, size_t pages)
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

/* What lay unused since the last tick, in each component; their marks begin anew. */
static void heap_idle(struct sa_huge_heap *h, size_t idle[3])
{
    idle[0] = sa_min(h->cache.low_water, h->cache.map.hugepages) * SA_HUGE_PAGES;
    idle[1] = sa_min(h->region_low_water, sa_huge_heap_region_backed(h));
    idle[2] = sa_min(h->filler.low_water, sa_huge_filler_backed(&h->filler));
    h->cache.low_water = h->cache.map.hugepages;
    h->region_low_water = sa_huge_heap_region_backed(h);
    h->filler.low_water = sa_huge_filler_backed(&h->filler);
}

static void heap_set_time(struct sa_huge_heap *h, uint64_t now_ns)
{
    if (!h->started_ns)
        h->started_ns = now_ns;
    h->now_ns = now_ns;
    sa_huge_cache_tick(&h->cache, now_ns);
    sa_huge_filler_tick(&h->filler, now_ns);
}

/* Releases the part of what is idle that the time since the last tick has earned. */
static void heap_release_idle(struct sa_huge_heap *h, double part)
{
    size_t idle[3], keep = HEAP_KEEP, want;

    heap_idle(h, idle);
    for (int i = 2; i >= 0; i--) { /* what is kept is best kept in the filler */
        size_t kept = sa_min(keep, idle[i]);

        idle[i] -= kept;
        keep -= kept;
    }
    want = (size_t)((double)idle[0] * part);
    if (want)
        release_cached(h, want, true);
    want = (size_t)((double)idle[1] * part);
    if (want && !h->refused)
        release_regions(h, want, SA_HUGE_BREAK_LEAST);
    want = sa_huge_filler_may_release(&h->filler, (size_t)((double)idle[2] * part));
    if (want && !h->refused)
        release_filler(h, want, SA_HUGE_BREAK_LEAST);
}

bool sa_huge_heap_tick(struct sa_huge_heap *h, uint64_t now_ns)
{
    uint64_t elapsed;
    size_t left;

    sa_lock_acquire(&h->lock, SA_RANK_PAGE_HEAP);
    sa_huge_heap_flush(h);
    elapsed = now_ns > h->now_ns ? sa_min(now_ns - h->now_ns, SA_RELEASE_NS) : 0;
    heap_set_time(h, sa_max(now_ns, h->now_ns));
    sa_huge_cache_shrink(&h->cache);
    h->refused = false;
    heap_release_idle(h, (double)elapsed / (double)SA_RELEASE_NS);
    sa_huge_heap_note(h);
    left = h->cache.map.hugepages * SA_HUGE_PAGES + sa_huge_heap_region_backed(h);
    if (sa_huge_filler_can_release(&h->filler, SA_HUGE_BREAK_LEAST))
        left += sa_huge_filler_backed(&h->filler);
    sa_lock_release(&h->lock, SA_RANK_PAGE_HEAP);
    /* Where address space has turned out to be limited, others need it too (stacks of threads, files):
     * what holds no memory is unmapped. Otherwise it is kept, which costs nothing. */
    if (SA_UNLIKELY(sa_load_relaxed(&sa_vm.map_failures)))
        heap_unmap(h, SIZE_MAX);
    sa_huge_heap_collapse(h);
    return left > HEAP_KEEP + HEAP_KEEP / 4;
}

void sa_huge_heap_set_skip(struct sa_huge_heap *h, enum sa_skip which, uint64_t seconds)
{
    sa_lock_acquire(&h->lock, SA_RANK_PAGE_HEAP);
    sa_store_relaxed(&h->filler.skip_s[which], sa_min(seconds, SA_SKIP_MOST_S));
    sa_lock_release(&h->lock, SA_RANK_PAGE_HEAP);
}
