/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which hugepages are advised to the kernel (MADV_HUGEPAGE, MADV_NOHUGEPAGE).
 *
 * The first touch of an advised hugepage brings all of its memory, in about 1/4 of the time that
 * 512 small faults take. Memory that the program does not touch is then lost. In mode madvise
 * advice goes to these hugepages, once the heap is so large that the rest of one hugepage does not
 * matter:
 *  - Hugepages of spans of many objects. The objects are small, and each kernel page holds some.
 *  - Hugepages of other spans below a hugepage, as long as the program writes to nearly all of
 *    them. One in eight (of a heap beyond 1 GiB, fewer) is left to small pages, and looked at when
 *    16 more have been taken. Advice ends where less than 80 % of the last eight, or 40 % of the
 *    last one, have memory, and comes back when that changes. A program that writes to all of its
 *    blocks shows 85 to 97 %: the rest goes to size classes, and to objects in caches.
 *  - Hugepages of large spans without their tails, on the same terms. One in eight of these spans
 *    is looked at in four places when four more have been taken; all of the last four must have
 *    memory. A span that is long compared with all memory in use gets no advice: the program may
 *    want it for its addresses only. Neither do the pages by which a span grows.
 *
 * Where first touches of hugepages take longer than those of small pages, some of the first are
 * left out: first_touch.c.
 *
 * In mode always the kernel needs no advice. In both modes, a hugepage of which some pages were
 * released is kept from the kernel until it is whole again (thp_collapse.c) or starts anew.
 *
 * The advice that is in force stands with the owner of a hugepage and changes only under the page
 * heap's lock, so that both agree. A release of the hugepage leaves the advice as it is; the next
 * use changes it where it wants another. A mapping ends where advice changes from one hugepage to
 * the next. The kernel bounds the number of mappings (65530), and both kinds of advice stay far
 * below that bound.
 */
#include "alloc/page_heap/huge/thp_policy.h"

#include "alloc/base/bits.h"
#include "alloc/os/filter.h"
#include "alloc/os/sys.h"
#include "alloc/os/vm.h"
#include "alloc/page_heap/account/limits.h"
#include "alloc/page_heap/huge/huge_heap_internal.h"

#include <string.h>

#define MODE_FILE      "/sys/kernel/mm/transparent_hugepage/enabled"
#define MODE_HUGEPAGES 16 /* a heap of fewer does not ask */

/* In use, before hugepages of either kind are advised. */
#define DENSE_MIN  (64ul << 20 >> SA_PAGE_SHIFT)
#define SPARSE_MIN (256ul << 20 >> SA_PAGE_SHIFT)

/* A heap that is not large, or owes hugepages, is collapsed only when it is so old. */
#define YOUNG_NS 5000000000ull

/* One of so many is left to small pages: one of PROBE_FRACTION of the filler's, within these
 * bounds. */
#define PROBE_EVERY     8
#define PROBE_EVERY_MAX 32
#define PROBE_FRACTION  64

/* A large span is looked at in so many places, of which this much is to have memory; one of more
 * than this part of what is in use is not advised. */
#define LARGE_PLACES   4
#define LARGE_PERCENT  97
#define LARGE_FRACTION 64

/* Free pages of the filler are few where they are less than this part of what is in use. */
#define TAIL_FRACTION 64

/* With less than this left below a hard limit, no memory is taken that is not needed yet. */
#define LIMIT_ROOM (16ul << 20)

#define EDGES_ON  8192
#define EDGES_OFF 16384

static enum sa_thp_mode advice_mode(void)
{
    char text[128];
    const char *chosen = text; /* always [madvise] never */

    if (sa_vm.page_bytes != 4096 || sa_filtered() ||
        sa_sys_read_file(MODE_FILE, text, sizeof(text)) <= 0)
        return SA_THP_NEVER;
    while (*chosen && *chosen != '[')
        chosen++;
    if (strncmp(chosen, "[always]", 8) == 0)
        return SA_THP_ALWAYS;
    return strncmp(chosen, "[madvise]", 9) == 0 ? SA_THP_MADVISE : SA_THP_NEVER;
}

/* The system's mode, which is read once the heap is large enough for it to matter. */
static enum sa_thp_mode thp_mode(struct sa_huge_heap *h) SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    if (SA_LIKELY(h->thp != SA_THP_UNKNOWN) ||
        (h->mapped < MODE_HUGEPAGES && h->choice == SA_HUGEPAGES_AUTO))
        return h->thp;
    h->thp = advice_mode();
    h->collapse.mode = (int)h->thp;
    sa_huge_filler_set_eager(&h->filler, h->thp == SA_THP_ALWAYS);
    return h->thp;
}

bool sa_huge_heap_collapses(struct sa_huge_heap *h)
{
    enum sa_thp_mode mode = thp_mode(h);

    return (mode == SA_THP_MADVISE || mode == SA_THP_ALWAYS) && !sa_filtered() &&
           h->choice != SA_HUGEPAGES_OFF && h->now_ns >= h->collapse_pause_ns &&
           ((h->in_use_pages >= SA_HUGE_LARGE_HEAP && !h->touches.to_make_up) ||
            h->choice == SA_HUGEPAGES_ALWAYS || h->now_ns - h->started_ns >= YOUNG_NS);
}

bool sa_huge_heap_collapse_due(struct sa_huge_heap *h)
{
    bool due;

    sa_lock_acquire(&h->lock, SA_RANK_PAGE_HEAP);
    due = sa_huge_heap_collapses(h);
    sa_lock_release(&h->lock, SA_RANK_PAGE_HEAP);
    return due;
}

bool sa_huge_heap_is_eager(const struct sa_huge_heap *h, size_t hugepage)
{
    enum sa_thp_policy advice = sa_hugepage_map_advice(&h->owners, hugepage);

    if (advice == SA_ADVICE_MIXED) /* the part with its first touch may be advised */
        return h->thp == SA_THP_MADVISE || h->thp == SA_THP_ALWAYS;
    return advice == SA_ADVICE_ON || (h->thp == SA_THP_ALWAYS && advice != SA_ADVICE_OFF);
}

/* Whether mappings may end where this hugepage begins. */
SA_RARE static size_t advice_edge(const struct sa_huge_heap *h, size_t hugepage)
{
    enum sa_thp_policy a = sa_hugepage_map_advice(&h->owners, hugepage - 1);
    enum sa_thp_policy b = sa_hugepage_map_advice(&h->owners, hugepage);

    return a != b || a == SA_ADVICE_MIXED;
}

static size_t *advice_count(struct sa_huge_heap *h, enum sa_thp_policy advice)
{
    return advice == SA_ADVICE_ON ? &h->collapse.advised : &h->collapse.thp_disabled;
}

SA_RARE static void set_one(struct sa_huge_heap *h, size_t hugepage, enum sa_thp_policy advice)
    SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    enum sa_thp_policy before = sa_hugepage_map_advice(&h->owners, hugepage);

    if (before == advice)
        return;
    h->advisor.edges -= advice_edge(h, hugepage) + advice_edge(h, hugepage + 1);
    sa_hugepage_map_set_advice(&h->owners, hugepage, advice);
    h->advisor.edges += advice_edge(h, hugepage) + advice_edge(h, hugepage + 1);
    if (before == SA_ADVICE_ON || before == SA_ADVICE_OFF)
        --*advice_count(h, before);
    if (advice == SA_ADVICE_ON || advice == SA_ADVICE_OFF)
        ++*advice_count(h, advice);
}

SA_RARE void sa_huge_heap_set_advice(struct sa_huge_heap *h, size_t hugepage, size_t n,
                                     enum sa_thp_policy advice)
{
    for (size_t i = hugepage; i < hugepage + n; i++)
        set_one(h, i, advice);
}

SA_RARE void sa_huge_heap_renewed(struct sa_huge_heap *h, uintptr_t start, size_t pages,
                                  bool afresh)
{
    uintptr_t end = start + (pages << SA_PAGE_SHIFT);

    for (size_t i = start >> SA_HUGE_SHIFT; i << SA_HUGE_SHIFT < end; i++) {
        bool all = i << SA_HUGE_SHIFT >= start && (i + 1) << SA_HUGE_SHIFT <= end;

        if (!afresh || sa_hugepage_map_advice(&h->owners, i) != SA_ADVICE_NONE)
            set_one(h, i, all && afresh ? SA_ADVICE_NONE : SA_ADVICE_MIXED);
    }
}

/* ON or OFF; whether it stands now. */
SA_RARE static bool advise(struct sa_huge_heap *h, size_t hugepage, size_t n,
                           enum sa_thp_policy advice) SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    void *p = (void *)(hugepage << SA_HUGE_SHIFT);
    size_t bytes = n * SA_HUGE_BYTES;
    bool ok;

    if (sa_filtered())
        return false;
    if (h->advisor.edges >= (advice == SA_ADVICE_ON ? EDGES_ON : EDGES_OFF)) {
        h->collapse.refused++;
        return false;
    }
    ok = advice == SA_ADVICE_ON ? sa_vm_hugepages(p, bytes) : sa_vm_no_hugepages(p, bytes);
    h->collapse.refused += !ok;
    sa_huge_heap_set_advice(h, hugepage, n, ok ? advice : SA_ADVICE_MIXED);
    return ok;
}

/* Looks at a hugepage that was left to small pages. Of pages that the program uses, some are
 * without memory because of rounding to size classes; of those handed out last, because they still
 * lie in caches. */
static void look_at_probe(struct sa_huge_heap *h, size_t hugepage)
{
    struct sa_huge_tracker *t = hugepage ? sa_hugepage_map_tracker(&h->owners, hugepage) : NULL;
    struct sa_huge_advisor *a = &h->advisor;
    size_t handed_out, there;

    if (!t || !t->probe || t->subreleased || t->moving_pages)
        return;
    t->probe = false;
    handed_out = (SA_HUGE_PAGES - (size_t)t->unbacked_pages) << SA_PAGE_SHIFT;
    there = sa_vm_resident((void *)(hugepage << SA_HUGE_SHIFT), SA_HUGE_BYTES);
    a->seen[a->looks++ % SA_PROBES_SEEN] =
        (uint8_t)sa_min(there * 100 / sa_max(handed_out, 1), 100);
}

SA_RARE static bool probes_are_dense(const struct sa_huge_advisor *a)
{
    size_t sum = 0;

    for (int i = 0; i < SA_PROBES_SEEN; i++)
        sum += a->seen[i];
    return sum >= (size_t)SA_PROBES_SEEN * SA_HUGE_DENSE_PERCENT &&
           a->seen[(a->looks - 1) % SA_PROBES_SEEN] >= SA_HUGE_DENSE_PERCENT / 2;
}

void sa_huge_heap_probe(struct sa_huge_heap *h, struct sa_huge_tracker *t)
{
    if (h->thp != SA_THP_MADVISE || h->choice != SA_HUGEPAGES_AUTO || t->eager)
        return;
    h->advisor.probes[0] = t->hugepage;
    h->advisor.since_probe = 0;
    t->probe = true;
}

/* Another hugepage of sparse spans: whether it is to be advised. */
static bool sparse_is_due(struct sa_huge_heap *h) SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    struct sa_huge_advisor *a = &h->advisor;

    if (h->in_use_pages < SPARSE_MIN / 2)
        return false;
    look_at_probe(h, a->probes[SA_PROBES - 1]);
    memmove(&a->probes[1], &a->probes[0], sizeof(a->probes) - sizeof(a->probes[0]));
    a->probes[0] = 0;
    return h->in_use_pages >= SPARSE_MIN && probes_are_dense(a) &&
           ++a->since_probe <
               sa_min(sa_max(h->filler.hugepages / PROBE_FRACTION, PROBE_EVERY), PROBE_EVERY_MAX);
}

/* Percent of a large span that has memory, in some places. */
static size_t look_at_large(struct sa_huge_extent e)
{
    size_t places = sa_min(e.n, LARGE_PLACES), there = 0;

    for (size_t i = 0; i < places; i++) {
        size_t at = e.first + (places > 1 ? i * (e.n - 1) / (places - 1) : 0);

        there += sa_vm_resident((void *)(at << SA_HUGE_SHIFT), SA_HUGE_BYTES);
    }
    return there * 100 / (places * SA_HUGE_BYTES);
}

SA_RARE void sa_huge_heap_probe_large(struct sa_huge_heap *h, size_t hugepage, size_t n)
{
    struct sa_huge_advisor *a = &h->advisor;
    struct sa_huge_extent last = a->large[SA_LARGE_PROBES - 1];

    if (h->thp != SA_THP_MADVISE || h->choice != SA_HUGEPAGES_AUTO ||
        h->in_use_pages < SPARSE_MIN / 2 ||
        sa_hugepage_map_advice(&h->owners, hugepage) == SA_ADVICE_ON)
        return;
    if (last.n)
        a->large_seen[a->large_looks++ % SA_LARGE_PROBES] = (uint8_t)look_at_large(last);
    memmove(&a->large[1], &a->large[0], sizeof(a->large) - sizeof(a->large[0]));
    a->large[0] = (struct sa_huge_extent){hugepage, n};
    a->since_large = 0;
}

SA_RARE void sa_huge_heap_forget_large(struct sa_huge_heap *h, size_t hugepage)
{
    for (int i = 0; i < SA_LARGE_PROBES; i++)
        if (h->advisor.large[i].first == hugepage)
            h->advisor.large[i].n = 0;
}

static bool large_is_due(struct sa_huge_heap *h, size_t pages) SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    struct sa_huge_advisor *a = &h->advisor;

    if (h->in_use_pages < SPARSE_MIN || pages > h->in_use_pages / LARGE_FRACTION)
        return false;
    for (int i = 0; i < SA_LARGE_PROBES; i++)
        if (a->large_seen[i] < LARGE_PERCENT)
            return false;
    return ++a->since_large < PROBE_EVERY;
}

/* The last hugepage of a large span, of which only a part is the span's: whether others are sure to
 * use the rest soon, as little of what the filler has is free. */
static bool tail_is_due(const struct sa_huge_heap *h) SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    size_t free_pages = h->filler.hugepages * SA_HUGE_PAGES - h->filler.taken_pages;

    return h->thp == SA_THP_MADVISE && h->in_use_pages >= SPARSE_MIN && !h->touches.withheld &&
           probes_are_dense(&h->advisor) && free_pages < h->in_use_pages / TAIL_FRACTION &&
           (!sa_limits_active() || sa_limits_plenty(LIMIT_ROOM));
}

static enum sa_thp_policy advice_for(struct sa_huge_heap *h, size_t hugepage, size_t pages,
                                     enum sa_huge_use use) SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    size_t n;
    bool due;
    enum sa_thp_mode mode = thp_mode(h);

    if (mode == SA_THP_NEVER || mode == SA_THP_UNKNOWN)
        return SA_ADVICE_NONE;
    if (h->choice == SA_HUGEPAGES_OFF)
        return mode == SA_THP_ALWAYS ? SA_ADVICE_OFF : SA_ADVICE_NONE;
    if (h->choice == SA_HUGEPAGES_ALWAYS)
        return SA_ADVICE_ON;
    if (mode == SA_THP_ALWAYS || use == SA_USE_REGION || h->in_use_pages < DENSE_MIN)
        return SA_ADVICE_NONE;
    if (sa_limits_active() && !sa_limits_plenty(LIMIT_ROOM))
        return SA_ADVICE_NONE;
    if (use == SA_USE_LARGE)
        due = large_is_due(h, pages);
    else
        due = use == SA_USE_DENSE || sparse_is_due(h);
    n = use == SA_USE_LARGE ? pages / SA_HUGE_PAGES : 1;
    return due && !sa_huge_heap_thp_withhold(h, hugepage, n, use) ? SA_ADVICE_ON : SA_ADVICE_NONE;
}

/* Makes the advice stand where it does not. */
static void advise_all(struct sa_huge_heap *h, size_t hugepage, size_t n, enum sa_thp_policy want)
    SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    enum sa_thp_policy same = want;

    if (want == SA_ADVICE_NONE) { /* which cannot be given; this comes to the same */
        if (h->thp != SA_THP_MADVISE && h->thp != SA_THP_ALWAYS)
            return;
        want = h->thp == SA_THP_ALWAYS ? SA_ADVICE_ON : SA_ADVICE_OFF;
    }
    for (size_t i = hugepage; i < hugepage + n; i++) {
        enum sa_thp_policy stands = sa_hugepage_map_advice(&h->owners, i);

        if (stands != want && stands != same) {
            if (!advise(h, hugepage, n, want))
                sa_huge_heap_not_advised(h, hugepage);
            return;
        }
    }
}

void sa_huge_heap_advise_for(struct sa_huge_heap *h, size_t hugepage, size_t pages,
                             enum sa_huge_use use)
{
    enum sa_thp_policy want = advice_for(h, hugepage, pages, use);
    size_t n = sa_align_up(pages, SA_HUGE_PAGES) / SA_HUGE_PAGES, full = n;

    if (use == SA_USE_LARGE && h->choice == SA_HUGEPAGES_AUTO)
        full = pages / SA_HUGE_PAGES;
    advise_all(h, hugepage, full, want);
    if (full < n)
        advise_all(h, hugepage + full, n - full, tail_is_due(h) ? SA_ADVICE_ON : SA_ADVICE_NONE);
}

SA_RARE bool sa_huge_heap_thp_disable(struct sa_huge_heap *h, size_t hugepage)
{
    enum sa_thp_policy stands = sa_hugepage_map_advice(&h->owners, hugepage);

    if (stands == SA_ADVICE_OFF)
        return true;
    /* In mode madvise the kernel leaves alone what was never advised. */
    if (h->thp != SA_THP_ALWAYS && stands == SA_ADVICE_NONE)
        return false;
    return advise(h, hugepage, 1, SA_ADVICE_OFF);
}

SA_RARE void sa_huge_heap_thp_enable(struct sa_huge_heap *h, size_t hugepage)
{
    struct sa_huge_tracker *t = sa_hugepage_map_tracker(&h->owners, hugepage);
    enum sa_thp_policy stands = sa_hugepage_map_advice(&h->owners, hugepage);

    if (stands == SA_ADVICE_NONE || stands == SA_ADVICE_ON || (t && t->moving_pages))
        return;
    if (advise(h, hugepage, 1, SA_ADVICE_ON) && t)
        t->no_hugepages = false;
}
