/* SPDX-License-Identifier: Apache-2.0 */
/* The page heap and the meter; see heap.h. The program is linked with calls of the functions below
 * in place of those that ask the system (meson.build). */
#include "perf/retention/heap.h"

#include "alloc/base/bits.h"
#include "alloc/base/size_class.h"
#include "alloc/os/vdso.h"
#include "alloc/os/vm.h"
#include "alloc/page_heap/account/limits.h"
#include "alloc/page_heap/huge/huge_heap_internal.h"
#include "alloc/page_heap/huge/huge_heap_release.h"
#include "alloc/page_heap/huge/huge_regions.h"
#include "alloc/page_heap/huge/huge_supply.h"
#include "alloc/page_heap/page_heap.h"
#include "pagemap/pagemap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#define HEAP        (&sa_page_heap_ordinary)
#define SEED        1
#define RELEASE_RUN 8  /* hugepages released together, as in huge_heap_release.c */
#define BREAK_MIN   32 /* free pages that a hugepage must have before it loses its first */
#define WASTEFUL_NS 1000000000ull
#define STEP_NS     8000000ull

struct heap_meter meter;
static uint64_t next_step_ns;

void *__wrap_sa_vm_map_space(void *hint, size_t bytes, const char *name);
void __wrap_sa_vm_unmap_space(void *p, size_t bytes);
bool __wrap_sa_vm_release(void *p, size_t bytes);
bool __wrap_sa_vm_release_runs(const struct iovec *runs, unsigned count);
bool __wrap_sa_vm_no_hugepages(void *p, size_t bytes);
bool __wrap_sa_vm_hugepages(void *p, size_t bytes);
bool __wrap_sa_vm_collapse(void *p, size_t bytes);
void __wrap_sa_vm_touch(void *p);
size_t __wrap_sa_vm_resident(const void *p, size_t bytes);
long __wrap_sa_sys_read_file(const char *path, char *buf, size_t cap);

void *__wrap_sa_vm_map_space(void *hint, size_t bytes, const char *name)
{
    (void)name;
    sa_vm.space_bytes += bytes;
    return hint;
}

void __wrap_sa_vm_unmap_space(void *p, size_t bytes)
{
    (void)p;
    sa_vm.space_bytes -= bytes;
}

bool __wrap_sa_vm_release(void *p, size_t bytes)
{
    (void)p;
    (void)bytes;
    return true;
}

bool __wrap_sa_vm_release_runs(const struct iovec *runs, unsigned count)
{
    (void)runs;
    (void)count;
    return true;
}

bool __wrap_sa_vm_no_hugepages(void *p, size_t bytes)
{
    (void)p;
    (void)bytes;
    return true;
}

bool __wrap_sa_vm_hugepages(void *p, size_t bytes)
{
    (void)p;
    (void)bytes;
    return true;
}

bool __wrap_sa_vm_collapse(void *p, size_t bytes)
{
    (void)p;
    (void)bytes;
    return false;
}

void __wrap_sa_vm_touch(void *p)
{
    (void)p;
}

size_t __wrap_sa_vm_resident(const void *p, size_t bytes)
{
    (void)p;
    return bytes;
}

long __wrap_sa_sys_read_file(const char *path, char *buf, size_t cap)
{
    static const char mode[] = "[always] madvise never\n";

    (void)path;
    if (cap < sizeof(mode))
        return -1;
    memcpy(buf, mode, sizeof(mode));
    return (long)sizeof(mode) - 1;
}

static void *checked(void *p)
{
    if (!p) {
        fprintf(stderr, "out of memory\n");
        exit(1);
    }
    return p;
}

void heap_begin(bool own_rules)
{
    sa_limits.watch = 0;
    sa_vm_init();
    sa_vdso_init();
    sa_size_class_init(SA_PAGE_BYTES / 2, 0, 2 * SA_CLASSES_MAX);
    sa_pagemap_init();
    sa_page_heap_init(SEED);
    HEAP->huge->thp = SA_THP_ALWAYS;
    sa_huge_filler_set_eager(&HEAP->huge->filler, true);
    if (!own_rules)
        sa_limits.keep = SIZE_MAX / 2;
}

/* A free or a request may have touched pages, and what was released may have been needed. */
struct before {
    size_t used, subreleased;
};

static struct before before_of(const struct sa_huge_heap *h)
{
    return (struct before){sa_huge_heap_used(h), h->filler.unbacked_pages[1]};
}

static void note_touches(const struct sa_huge_heap *h, struct before b)
{
    struct before now = before_of(h);
    size_t inside = b.subreleased > now.subreleased ? b.subreleased - now.subreleased : 0;
    size_t all = now.used > b.used ? now.used - b.used : 0;

    inside = sa_min(inside, all);
    meter.inside += inside;
    meter.whole += all - inside;
    meter.touch_ns +=
        (double)inside * SA_PRICE_INSIDE_NS + (double)(all - inside) * SA_PRICE_WHOLE_NS;
    meter.peak = sa_max(meter.peak, now.used);
}

struct sa_span *heap_take(const struct heap_take *what)
{
    struct before b = before_of(HEAP->huge);
    struct sa_span *s = checked(sa_page_heap_alloc(HEAP, what->pages, what->align,
                                                   what->dense ? SA_PAGES_DENSE : SA_PAGES_ANY));

    note_touches(HEAP->huge, b);
    return s;
}

void heap_give(struct sa_span *span, bool zero)
{
    sa_page_heap_free(HEAP, span, zero);
}

bool heap_resize(struct sa_span *span, size_t pages)
{
    struct before b = before_of(HEAP->huge);
    bool ok = true;

    if (pages > span->pages)
        ok = sa_page_heap_extend(HEAP, span, pages);
    else
        sa_page_heap_shrink(HEAP, span, pages);
    note_touches(HEAP->huge, b);
    return ok;
}

struct sa_span *heap_split(struct sa_span *span, size_t pages)
{
    return sa_page_heap_split(HEAP, span, pages);
}

bool heap_join(struct sa_span *span, struct sa_span *next)
{
    return sa_span_end(span) == next->start && sa_page_heap_join(HEAP, span, next);
}

/* Free pages, the span freed last among them. */
static size_t free_pages(const struct sa_huge_heap *h)
{
    return sa_huge_heap_backed(h) + (h->recent ? h->recent->pages : 0);
}

void heap_pass(uint64_t now_ns)
{
    double seconds = (double)(now_ns - meter.now_ns) / 1e9;
    double free = (double)free_pages(HEAP->huge) * seconds;

    meter.free_page_s += free;
    meter.hold_ns += free * SA_HOLD_NS;
    meter.now_ns = now_ns;
}

void heap_tick(bool wasteful)
{
    if (wasteful)
        sa_page_heap_lean_ns = meter.now_ns + WASTEFUL_NS;
    sa_page_heap_tick(HEAP, meter.now_ns);
    next_step_ns = meter.now_ns + STEP_NS;
}

void heap_step(void)
{
    if (!sa_page_heap_due || meter.now_ns < next_step_ns)
        return;
    sa_page_heap_step(HEAP);
    next_step_ns = meter.now_ns + STEP_NS;
}

void heap_sums(struct sa_retention_sums *ret)
{
    const struct sa_huge_heap *h = HEAP->huge;

    ret->used = h->in_use_pages;
    ret->whole = h->cache.map.hugepages * SA_HUGE_PAGES;
    ret->inside = free_pages(h) - ret->whole;
    ret->used_whole = (h->mapped - h->released.hugepages) * SA_HUGE_PAGES - ret->whole;
}

size_t heap_release_whole(size_t pages)
{
    struct sa_huge_heap *h = HEAP->huge;
    size_t done = 0;

    sa_lock_acquire(&h->lock, SA_RANK_PAGE_HEAP);
    sa_huge_heap_flush(h);
    while (done < pages && sa_huge_heap_ready(h, 2)) {
        struct sa_huge_moving m;

        m.n = sa_huge_cache_evict(&h->cache, sa_min((pages - done) / SA_HUGE_PAGES, RELEASE_RUN),
                                  &m.hugepage);
        if (!m.n)
            break;
        h->moving += m.n;
        h->items++;
        sa_huge_heap_move(h, &m);
        sa_huge_cache_note_released(&h->cache, m.n, true);
        done += m.n * SA_HUGE_PAGES;
    }
    sa_huge_heap_note(h);
    sa_lock_release(&h->lock, SA_RANK_PAGE_HEAP);
    meter.released += done;
    return done;
}

/* Releases the free pages of one hugepage. Returns how many. */
static size_t release_one(struct sa_huge_heap *h)
{
    static const struct sa_filler_least least = {1, BREAK_MIN};
    uint64_t released[SA_HUGE_WORDS] = {0};
    struct sa_huge_moving moving = {.n = 0};
    struct sa_filler_release r;
    size_t count;
    bool empty;

    if (!sa_huge_heap_ready(h, 2) || !sa_huge_filler_begin(&h->filler, least, &r))
        return 0;
    sa_lock_release(&h->lock, SA_RANK_PAGE_HEAP);
    sa_huge_heap_release_runs(r.tracker->hugepage, r.mask, released);
    sa_lock_acquire(&h->lock, SA_RANK_PAGE_HEAP);
    count = sa_huge_filler_end(&h->filler, &r, released, &empty);
    if (empty)
        sa_huge_heap_evict(h, r.tracker, &moving);
    if (moving.n)
        sa_huge_heap_move(h, &moving);
    return count;
}

size_t heap_release_inside(size_t pages)
{
    struct sa_huge_heap *h = HEAP->huge;
    size_t done, count;

    sa_lock_acquire(&h->lock, SA_RANK_PAGE_HEAP);
    sa_huge_heap_flush(h);
    done = sa_huge_heap_release_regions(h, pages, BREAK_MIN);
    while (done < pages && (count = release_one(h)) > 0)
        done += count;
    sa_huge_heap_note(h);
    sa_lock_release(&h->lock, SA_RANK_PAGE_HEAP);
    meter.released += done;
    return done;
}
