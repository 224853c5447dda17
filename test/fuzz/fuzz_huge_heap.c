/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The whole hugepage-aware heap on a system of memory that is only numbers
 * (test/support/fake_system.h), whose calls fail when the input says so, as do requests for records
 * and those beyond limits. Spans do not overlap, lie where memory is mapped, are zero if they are
 * said to be; nothing in use is released or unmapped; the invariants hold
 * (test/support/page_heap_walk.h), the figures add up, and what is freed can all be given back.
 */
#include "alloc/page_heap/huge/huge_heap_internal.h"

#include "alloc/base/bits.h"
#include "alloc/page_heap/page_heap.h"
#include "test/fuzz/heap_steps.h"
#include "test/support/page_heap_walk.h"

#define HEAP      (&sa_page_heap_ordinary)
#define PAGES_MAX (SA_HUGE_PAGES * 700) /* more than a region has */

static size_t pick_pages(struct fuzz_input *in)
{
    switch (fuzz_byte(in) % 16) {
    case 0:
        return 1 + fuzz_below(in, fuzz_byte(in) % 8 ? 3000 : PAGES_MAX);
    case 1:
        return SA_HUGE_PAGES * (1 + fuzz_below(in, 6));
    case 2:
    case 3:
        return 64 + fuzz_below(in, 192);
    case 4:
        return 130 + fuzz_below(in, 500);
    default:
        return fuzz_size(in, 6);
    }
}

static void take(struct fuzz_input *in)
{
    size_t n = pick_pages(in), align = 1, limit = sa_limits_get(SA_LIMIT_HARD), used;
    uint64_t refused = sa_limits.refused;
    struct sa_page_heap_stats stats;
    uint8_t how = fuzz_byte(in);
    struct sa_span *s;

    if (count == SPANS)
        return;
    if (how % 8 == 0)
        align <<= fuzz_below(in, 12);
    sa_page_heap_stats(HEAP, &stats); /* settles what was freed last */
    used = sa_huge_heap_used(HEAP->huge);
    s = sa_page_heap_alloc(HEAP, n, align,
                           how & 64   ? SA_PAGES_DENSE
                           : how & 32 ? SA_PAGES_ZERO
                                      : SA_PAGES_ANY);
    if (!s) {
        FUZZ_CHECK(sa_limits.refused > refused || fake.map_fails || fuzz_arena.fails_after == 0 ||
                   HEAP->huge->mapped + n / SA_HUGE_PAGES + align / SA_HUGE_PAGES >
                       FAKE_PAGES / SA_HUGE_PAGES / 4);
        return;
    }
    if (sa_huge_heap_used(HEAP->huge) > used && sa_footprint_bytes() > limit)
        FUZZ_FAIL("%zu bytes with a limit of %zu", sa_footprint_bytes(), limit);
    FUZZ_EQUAL(s->pages, n);
    FUZZ_EQUAL(s->state, SA_SPAN_LARGE);
    spans_enter(in, s, align, how);
}

static void give(struct fuzz_input *in, unsigned i)
{
    struct sa_span *s = spans[i];
    uint8_t how = fuzz_byte(in);
    size_t pages = s->pages, in_use = HEAP->huge->in_use_pages;
    uintptr_t start = s->start;
    bool moved_away = pages >= 32 && how % 8 == 0;

    s->moved = how % 8 == 1;
    spans_leave(i, moved_away);
    if (!s->moved || !fake.renew_loses) {
        sa_page_heap_free(HEAP, s, moved_away);
        return;
    }
    /* The kernel may lose the range, which must not come back then. */
    sa_page_heap_free(HEAP, s, false);
    s->moved = 0;
    if (HEAP->huge->in_use_pages == in_use) {
        fake_own(start, pages, true);
        lost += pages;
    }
}

static void resize(struct fuzz_input *in, unsigned i)
{
    struct sa_span *s = spans[i];
    size_t old = s->pages, n;

    if (fuzz_byte(in) % 2) {
        n = old + fuzz_size(in, old > 200 ? 11 : 7);
        if (!sa_page_heap_extend(HEAP, s, n)) {
            FUZZ_EQUAL(s->pages, old);
            return;
        }
        FUZZ_EQUAL(s->pages, n);
        fake_own(s->start + (old << SA_PAGE_SHIFT), n - old, true);
        fake_touch(s->start + (old << SA_PAGE_SHIFT), n - old);
    } else {
        n = 1 + fuzz_below(in, old);
        /* Given up before the heap may release it. */
        fake_own(s->start + (n << SA_PAGE_SHIFT), old - n, false);
        sa_page_heap_shrink(HEAP, s, n);
        if (s->pages != n) { /* out of memory for records */
            FUZZ_EQUAL(s->pages, old);
            fake_own(s->start + (n << SA_PAGE_SHIFT), old - n, true);
        }
    }
}

static void check_metrics(void)
{
    static struct sa_huge_stats s;
    size_t released = 0, backed = 0, in_use = lost;

    for (unsigned i = 0; i < count; i++)
        in_use += spans[i]->pages;
    memset(&s, 0, sizeof(s));
    FUZZ_CHECK(sa_page_heap_huge_stats(HEAP, &s));
    FUZZ_EQUAL(s.heap.in_use_bytes >> SA_PAGE_SHIFT, in_use);
    FUZZ_EQUAL(s.heap.mapped_bytes, s.heap.in_use_bytes + s.heap.backed_bytes +
                                        s.heap.released_bytes + s.heap.moving_bytes);
    FUZZ_EQUAL((s.part_filler.used_pages + s.part_region.used_pages + s.part_cache.used_pages),
               s.heap.in_use_bytes >> SA_PAGE_SHIFT);
    FUZZ_EQUAL((s.part_filler.free_pages + s.part_region.free_pages + s.part_cache.free_pages),
               s.heap.backed_bytes >> SA_PAGE_SHIFT);
    for (int k = 0; k < SA_AGE_LENGTHS; k++) {
        released += s.ages.released[k].pages;
        backed += s.ages.backed[k].pages;
    }
    FUZZ_EQUAL(released, s.heap.released_bytes >> SA_PAGE_SHIFT);
    FUZZ_EQUAL(backed, s.heap.backed_bytes >> SA_PAGE_SHIFT);
    FUZZ_CHECK(fake_held() << SA_PAGE_SHIFT <= s.heap.backed_bytes);
}

static void set_faults(struct fuzz_input *in)
{
    uint8_t which = fuzz_byte(in);

    faults_set(in, which);
    fake.advise_fails = which & 16 ? fuzz_below(in, 101) : 0;
    fake.collapse_fails = which & 64;
    fuzz_arena.fails_after = which & 8 ? (long)fuzz_below(in, 20) : -1;
}

/* Near what is used, or below it; or none. */
static void set_limit(struct fuzz_input *in)
{
    size_t used = sa_footprint_bytes(), bytes = fuzz_number(in, 3) << 4;
    uint8_t how = fuzz_byte(in);

    sa_limits_set(how & 1 ? SA_LIMIT_SOFT : SA_LIMIT_HARD, how & 2   ? SA_NO_LIMIT
                                                           : how & 4 ? used - sa_min(used, bytes)
                                                                     : used + bytes);
}

static void set_mode(struct fuzz_input *in)
{
    static const char *const modes[] = {"always [madvise] never\n", "always madvise [never]\n",
                                        "[always] madvise never\n", "", "always"};

    fake.mode = modes[fuzz_below(in, 5)];
    fake.random.state = 1 + fuzz_byte(in);
    /* The mode is known from the start here, as after the first ticks of a real heap. */
    fake.eager = strstr(fake.mode, "[always]") != NULL;
    sa_page_heap_set_hugepages(HEAP, (enum sa_hugepages)(fake.random.state % 3));
    if (fake.eager) {
        HEAP->huge->thp = SA_THP_ALWAYS;
        sa_huge_filler_set_eager(&HEAP->huge->filler, true);
    }
}

static void tick(void)
{
    sa_page_heap_tick(HEAP, now_ns);
    sa_page_heap_collapse(HEAP, UINT64_MAX);
}

static void other(struct fuzz_input *in, unsigned what)
{
    if (what == 0 && fuzz_byte(in) % 4)
        sa_page_heap_release(HEAP, fuzz_number(in, 4));
    else if (what == 0)
        sa_page_heap_unmap(HEAP, fuzz_number(in, 4));
    else if (what == 1)
        set_faults(in);
    else
        set_limit(in);
}

static const struct heap_actions actions = {take, give, resize, tick, other};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = {data, data + size};

    spans_begin(fuzz_byte(&in));
    set_mode(&in);
    for (int i = 0; fuzz_left(&in); i++) {
        spans_step(&in, &actions);
        if (i % 8 == 7)
            page_heap_check();
    }
    page_heap_check();
    check_metrics();
    faults_end();
    fake.advise_fails = 0;
    sa_limits_set(SA_LIMIT_HARD, SA_NO_LIMIT);
    while (count)
        give(&in, count - 1);
    sa_page_heap_tick(HEAP,
                      now_ns += 2 * SA_RELEASE_NS); /* it tries again what the kernel refused */
    sa_page_heap_collapse(HEAP, UINT64_MAX);
    sa_page_heap_release(HEAP, PTRDIFF_MAX);
    page_heap_check();
    check_metrics();
    FUZZ_EQUAL(HEAP->huge->in_use_pages, lost);
    FUZZ_EQUAL(sa_huge_heap_backed(HEAP->huge), 0);
    return 0;
}
