/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transparent hugepages. Where the system gives them by itself (mode always), hugepages that are broken are kept
 * out, so that what was given back does not come again; the release code does that. Where it gives them
 * on advice (mode madvise), and for what it missed, hugepages that are nearly all taken and in memory are
 * made whole one by one. Advice that stands (MADV_HUGEPAGE) is never given: it would let one byte
 * touched cost 2 MiB. What is not in memory stays so: a hugepage that would grow by more than a 32nd is left
 * alone.
 *
 * The lock is taken to pick a hugepage, not while the kernel works. The pages may be freed meanwhile: the kernel
 * keeps contents in any case, and at worst one hugepage more has memory than is counted.
 */
#include "alloc/page_heap/huge_heap.h"

#include "alloc/os/clock.h"
#include "alloc/os/sys.h"
#include "alloc/os/vm.h"
#include "alloc/page_heap/limits.h"

#include <string.h>

#define MODE_FILE      "/sys/kernel/mm/transparent_hugepage/enabled"
#define MODE_HUGEPAGES 16         /* a heap of fewer does not ask */
#define COLLAPSE_NS    5000000ull /* a tick spends about this long */
#define COLLAPSE_MOST  64         /* hugepages in a tick */
#define RESIDENT_LEAST (SA_HUGE_BYTES - SA_HUGE_BYTES / 32)
#define LARGE_PASSES   3  /* times that a large span is gone through */
#define FAILURES_MOST  16 /* in a row; the kernel does not want to */

static enum sa_thp_mode collapse_mode(void)
{
    char text[128];
    const char *chosen = text; /* always [madvise] never */

    if (sa_sys_read_file(MODE_FILE, text, sizeof(text)) <= 0)
        return SA_THP_NEVER;
    while (*chosen && *chosen != '[')
        chosen++;
    if (strncmp(chosen, "[always]", 8) == 0)
        return SA_THP_ALWAYS;
    return strncmp(chosen, "[madvise]", 9) == 0 ? SA_THP_MADVISE : SA_THP_NEVER;
}

/* The next hugepage of a large span; SA_HUGE_NONE: none. Lock held. */
static size_t next_large(struct sa_huge_heap *h)
{
    for (int tries = 0; tries < COLLAPSE_MOST; tries++) {
        struct sa_span *s = h->large_cursor;

        if (!s) {
            h->large_cursor = h->large_spans;
            h->cursor_hugepage = 0;
            return SA_HUGE_NONE; /* a tick goes round once at most */
        }
        if (s->objects < LARGE_PASSES && h->cursor_hugepage < s->pages / SA_HUGE_PAGES)
            return (s->start >> SA_HUGE_SHIFT) + h->cursor_hugepage++;
        if (s->objects < LARGE_PASSES)
            s->objects++;
        h->large_cursor = s->next;
        h->cursor_hugepage = 0;
    }
    return SA_HUGE_NONE;
}

static size_t next_hugepage(struct sa_huge_heap *h)
{
    struct sa_huge_tracker *t = sa_huge_filler_next_full(&h->filler);

    return t ? t->hugepage : next_large(h);
}

static void collapse_note(struct sa_huge_heap *h, size_t hugepage, bool sparse, bool made)
{
    struct sa_huge_tracker *t;

    sa_lock_acquire(&h->lock, SA_RANK_PAGE_HEAP);
    h->collapse.tried++;
    h->collapse.made += made;
    h->collapse.sparse += sparse;
    if (!sparse)
        h->collapse.failures = made ? 0 : h->collapse.failures + 1;
    t = made ? sa_huge_heap_tracker(h, hugepage) : NULL;
    if (t)
        sa_huge_filler_made_whole(&h->filler, t);
    sa_huge_heap_note(h);
    sa_lock_release(&h->lock, SA_RANK_PAGE_HEAP);
}

void sa_huge_heap_collapse(struct sa_huge_heap *h)
{
    enum sa_thp_mode mode = h->thp; /* written by the only thread that ticks */
    uint64_t start = 0;
    size_t hugepage;

    if (mode == SA_THP_UNKNOWN) {
        sa_lock_acquire(&h->lock, SA_RANK_PAGE_HEAP);
        hugepage = h->mapped;
        sa_lock_release(&h->lock, SA_RANK_PAGE_HEAP);
        if (hugepage < MODE_HUGEPAGES)
            return;
        mode = sa_vm.page_bytes == 4096 ? collapse_mode() : SA_THP_NEVER;
        sa_lock_acquire(&h->lock, SA_RANK_PAGE_HEAP);
        h->thp = mode;
        h->collapse.mode = (int)mode;
        sa_huge_filler_set_whole(&h->filler, mode == SA_THP_ALWAYS);
        sa_lock_release(&h->lock, SA_RANK_PAGE_HEAP);
    }
    for (int i = 0; i < COLLAPSE_MOST && mode != SA_THP_NEVER; i++) {
        bool sparse, made = false;
        void *p;

        if (sa_limits_active() && !sa_limits_have_room(SA_HUGE_BYTES - RESIDENT_LEAST))
            break;
        sa_lock_acquire(&h->lock, SA_RANK_PAGE_HEAP);
        hugepage = h->collapse.failures < FAILURES_MOST ? next_hugepage(h) : SA_HUGE_NONE;
        sa_lock_release(&h->lock, SA_RANK_PAGE_HEAP);
        if (hugepage == SA_HUGE_NONE)
            break;
        if (!start)
            start = sa_clock_ns();
        p = (void *)(hugepage << SA_HUGE_SHIFT);
        sparse = sa_vm_resident(p, SA_HUGE_BYTES) < RESIDENT_LEAST;
        if (!sparse)
            made = sa_vm_collapse(p, SA_HUGE_BYTES);
        collapse_note(h, hugepage, sparse, made);
        if (sa_clock_ns() - start > COLLAPSE_NS)
            break;
    }
}
