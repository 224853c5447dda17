/* SPDX-License-Identifier: Apache-2.0 */
/* A program on the fake system; see huge_program.h. */
#include "test/support/huge_program.h"

#include "alloc/base/bits.h"
#include "alloc/page_heap/huge/huge_heap_internal.h"
#include "alloc/page_heap/page_heap.h"
#include "test/support/cmocka.h"
#include "test/support/fake_system.h"
#include "test/support/page_heap_walk.h"

#include <string.h>

#define HEAP (&sa_page_heap_ordinary)
#define MIB  (1ul << 20)

struct huge_program program = {.now_ns = 1000000000};

void program_begin(const char *mode, uint64_t seed)
{
    fake.mode = mode;
    fake.random.state = seed;
    /* The mode is known from the start here, as after the first ticks of a real heap. */
    fake.eager = strstr(mode, "[always]") != NULL;
    if (fake.eager) {
        HEAP->huge->thp = SA_THP_ALWAYS;
        sa_huge_filler_set_eager(&HEAP->huge->filler, true);
    }
}

struct sa_span *program_take(size_t n, size_t align, bool dense)
{
    struct sa_span *s;

    if (program.count == TEST_COUNT(program.spans))
        program_give(0);
    s = sa_page_heap_alloc(HEAP, n, align, dense ? SA_PAGES_DENSE : SA_PAGES_ANY);
    if (!s)
        return NULL;
    assert_int_equal(s->pages, n);
    assert_int_equal(s->start % (align << SA_PAGE_SHIFT), 0);
    fake_own(s->start, n, true);
    for (size_t i = 0; s->zeroed && i < n; i++)
        assert_false(fake.pages[fake_page((void *)s->start) + i] & FAKE_DIRTY);
    /* Most programs write to all of what they get. */
    fake_touch(s->start,
               test_random_below(&fake.random, 8) ? n : test_random_below(&fake.random, n + 1));
    program.spans[program.count++] = s;
    return s;
}

void program_give(unsigned i)
{
    struct sa_span *s = program.spans[i];
    bool moved_away = s->pages >= 32 && test_random_below(&fake.random, 8) == 0;

    if (moved_away) /* as after a move of its pages */
        for (size_t k = 0; k < s->pages; k++)
            fake.pages[fake_page((void *)s->start) + k] &=
                (unsigned char)~(FAKE_MEMORY | FAKE_DIRTY);
    s->moved = !moved_away && test_random_below(&fake.random, 16) == 0;
    fake_own(s->start, s->pages, false);
    fake.giving = s->moved ? s->start : 0;
    if (s->moved && fake.renew_loses) { /* it may be lost, and must not come back then */
        size_t n = s->pages, in_use = HEAP->huge->in_use_pages;

        sa_page_heap_free(HEAP, s, false);
        if (HEAP->huge->in_use_pages == in_use)
            fake_own(s->start, n, true);
        else
            program.spans[i] = program.spans[--program.count];
        s->moved = 0;
        return;
    }
    program.spans[i] = program.spans[--program.count];
    sa_page_heap_free(HEAP, s, moved_away);
}

void program_resize(unsigned i)
{
    struct sa_span *s = program.spans[i];
    size_t old = s->pages, n;

    if (test_random_below(&fake.random, 2)) {
        n = old + test_random_size(&fake.random, old > 200 ? 10 : 6);
        if (sa_page_heap_extend(HEAP, s, n)) {
            assert_int_equal(s->pages, n);
            fake_own(sa_span_end(s) - ((n - old) << SA_PAGE_SHIFT), n - old, true);
            fake_touch(sa_span_end(s) - ((n - old) << SA_PAGE_SHIFT), n - old);
        }
    } else {
        n = 1 + test_random_below(&fake.random, old);
        /* Given up before the heap may release it. */
        fake_own(s->start + (n << SA_PAGE_SHIFT), old - n, false);
        sa_page_heap_shrink(HEAP, s, n);
        if (s->pages != n) /* out of memory for records */
            fake_own(s->start + (n << SA_PAGE_SHIFT), old - n, true);
    }
}

void program_check_memory(void)
{
    struct sa_page_heap_stats stats;

    sa_page_heap_stats(HEAP, &stats);
    assert_true(fake_held() << SA_PAGE_SHIFT <= stats.backed_bytes);
}

size_t program_pages(void)
{
    switch (test_random_below(&fake.random, 16)) {
    case 0:
        return 100 + test_random_below(&fake.random, 1500);
    case 1:
        return SA_HUGE_PAGES * (1 + test_random_below(&fake.random, 6));
    case 2:
    case 3:
        return 64 + test_random_below(&fake.random, 192);
    default:
        return test_random_size(&fake.random, 6);
    }
}

void program_step(void)
{
    size_t align = 1;

    switch (test_random_below(&fake.random, 12)) {
    case 0:
        align <<= test_random_below(&fake.random, 11);
        /* fall through */
    case 1:
    case 2:
    case 3:
        program_take(program_pages(), align, test_random_below(&fake.random, 2));
        break;
    case 4:
    case 5:
    case 6:
    case 7:
        if (program.count)
            program_give((unsigned)test_random_below(&fake.random, program.count));
        break;
    case 8:
    case 9:
        if (program.count)
            program_resize((unsigned)test_random_below(&fake.random, program.count));
        break;
    case 10:
        program.now_ns += test_random_below(&fake.random, 2 * SA_RELEASE_NS);
        sa_page_heap_tick(HEAP, program.now_ns);
        sa_page_heap_collapse(HEAP, UINT64_MAX);
        break;
    default:
        sa_page_heap_step(HEAP);
        if (test_random_below(&fake.random, 4) == 0)
            sa_page_heap_release(HEAP, test_random_below(&fake.random, 64 * MIB));
        if (test_random_below(&fake.random, 16) == 0)
            sa_page_heap_unmap(HEAP, test_random_below(&fake.random, 16 * MIB));
    }
}

void program_end(void)
{
    fake.map_fails = fake.release_fails = fake.renew_fails = fake.renew_loses = 0;
    while (program.count)
        program_give(program.count - 1);
    page_heap_check();
    sa_page_heap_release(HEAP, PTRDIFF_MAX);
    page_heap_check();
    assert_int_equal(HEAP->huge->in_use_pages, 0);
    assert_int_equal(sa_huge_heap_backed(HEAP->huge), 0);
    program_check_memory();
}
