/* SPDX-License-Identifier: Apache-2.0 */
/*
 * First-touch latency of hugepages. The kernel of a virtual machine may report free hugepages to
 * its host, which takes their memory away. The first touch of an unbacked page then costs 10 us
 * more, and that of a hugepage 512 times as much. Small pages come from memory that was used and
 * freed recently, as long as there is any. A large heap regains the price of a hugepage over time,
 * but a program that fills its heap pays it at once.
 *
 * The thread that takes an advised hugepage of the filler therefore makes its first touch and times
 * it. After a slow touch, the next hugepages are left to small pages, twice as many each time; a
 * quick touch quarters their number. On some of those, small pages are timed, too. Where they are
 * slow, small pages gain nothing, and hugepages are advised again. Once the program has run for
 * some seconds, the hugepages that were withheld are collapsed at a pace that follows from the time
 * that a collapse takes (thp_collapse.c).
 *
 * What falls without it (doc/perf_findings.md): an XML document of 680 MiB
 * takes 0.7 to 1.4 s in the kernel instead of 0.2 to 0.6 s, and a python3 script with 200 MiB takes
 * 0.26 s instead of 0.13 s, on a virtual machine whose host takes free memory away.
 *
 * The heap's lock guards all of it; `untouched` is also read without the lock.
 */
#include "alloc/page_heap/huge/first_touch.h"

#include "alloc/base/bits.h"
#include "alloc/os/clock.h"
#include "alloc/os/vm.h"
#include "alloc/page_heap/huge/huge_heap_internal.h"

/* Pages in use from which the hugepages that were left out are made up for. */
#define MAKE_UP_MIN (256ul << 20 >> SA_PAGE_SHIFT)

/* A first touch of a small page that takes at least this long is slow. */
#define SLOW_SMALL_NS 5000

/* Hugepages before another one is advised: after the first slow touch, at most. A hugepage costs as
 * much as six or seven of small pages where it is slow. */
#define WITHHOLD_MIN 16
#define WITHHOLD_MAX 1024

/* Hugepages that are advised and not timed, where small pages are slow as well. */
#define NOT_TIMED 64

/* Of hugepages that are withheld, one in so many is asked again whether small pages are quick. */
#define SMALL_EVERY 64

/* Small pages must be slow on SMALL_TRIES hugepages in a row. At most SMALL_PAGES of each are
 * touched. */
#define SMALL_TRIES 3
#define SMALL_PAGES 4

bool sa_huge_heap_thp_withhold(struct sa_huge_heap *h, size_t hugepage, size_t n,
                               enum sa_huge_use use)
{
    struct sa_huge_touches *a = &h->touches;
    bool withheld = a->withheld > 0;

    if (withheld) {
        if (a->withheld / SMALL_EVERY != (a->withheld - 1) / SMALL_EVERY)
            a->try_small = SMALL_TRIES;
        a->withheld -= (unsigned)sa_min(a->withheld, n);
        a->to_make_up = sa_min(a->to_make_up + n, h->mapped); /* some of them may no longer be
                                                               * mapped */
    } else if (a->not_timed) {
        a->not_timed -= (unsigned)sa_min(a->not_timed, n);
        return false;
    }
    if (use != SA_USE_LARGE && (!withheld || a->try_small)) {
        a->small = withheld;
        sa_store_relaxed(&a->untouched, hugepage);
    }
    return withheld;
}

void sa_huge_heap_not_advised(struct sa_huge_heap *h, size_t hugepage)
{
    if (h->touches.untouched == hugepage)
        sa_store_relaxed(&h->touches.untouched, 0);
}

/* Touches the given number of places, a page apart. Returns the CPU time in nanoseconds. */
static uint64_t touch(uintptr_t start, size_t places)
{
    uint64_t begin = sa_clock_thread_cpu_ns();

    for (size_t i = 0; i < places; i++)
        sa_vm_touch((void *)(start + i * sa_vm.page_bytes));
    return sa_clock_thread_cpu_ns() - begin;
}

static void touched_hugepage(struct sa_huge_touches *a, bool slow)
{
    if (a->withheld || a->not_timed)
        return; /* another thread has timed a touch meanwhile */
    if (slow)
        a->withhold = sa_min(sa_max(2 * a->withhold, WITHHOLD_MIN), WITHHOLD_MAX);
    else
        a->withhold = a->withhold / 4 >= WITHHOLD_MIN ? a->withhold / 4 : 0;
    a->withheld = a->withhold;
    a->try_small = SMALL_TRIES;
}

static void touched_small(struct sa_huge_touches *a, bool slow)
{
    if (!slow)
        a->try_small = 0;
    else if (a->try_small && --a->try_small == 0) {
        a->withheld = a->withhold = 0;
        a->not_timed = NOT_TIMED;
    }
}

void sa_huge_heap_touch(struct sa_huge_heap *h, const struct sa_span *s)
{
    struct sa_huge_touches *a = &h->touches;
    size_t hugepage = s->start >> SA_HUGE_SHIFT, places = 0;
    bool first, small;
    uint64_t ns;

    sa_lock_acquire(&h->lock, SA_RANK_PAGE_HEAP);
    first = a->untouched == hugepage; /* only one of several threads with spans on it is first */
    small = a->small;
    if (first)
        sa_store_relaxed(&a->untouched, 0);
    sa_lock_release(&h->lock, SA_RANK_PAGE_HEAP);
    if (!first)
        return;
    if (small) { /* the first small page also takes a page of the kernel's tables: it is not
                  * timed */
        places = sa_min(sa_span_bytes(s) / sa_vm.page_bytes, SMALL_PAGES);
        sa_vm_touch((void *)s->start);
        ns = touch(s->start + sa_vm.page_bytes, places - 1);
    } else {
        ns = touch(s->start, 1);
    }
    sa_lock_acquire(&h->lock, SA_RANK_PAGE_HEAP);
    if (small)
        touched_small(a, ns >= (places - 1) * SLOW_SMALL_NS);
    else
        touched_hugepage(a, ns >= SA_HUGE_SLOW_NS);
    sa_lock_release(&h->lock, SA_RANK_PAGE_HEAP);
}

bool sa_huge_heap_makes_up(struct sa_huge_heap *h)
{
    bool owes = h->touches.to_make_up > 0;

    h->touches.to_make_up -= owes;
    return owes && h->in_use_pages >= MAKE_UP_MIN;
}
