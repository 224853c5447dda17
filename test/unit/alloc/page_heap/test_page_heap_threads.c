/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The page heap used by several threads at once, while memory goes back all the time: nobody's
 * pages change hands, zero is zero, and afterwards all invariants hold.
 */
#include "alloc/page_heap/page_heap.h"

#include "alloc/base/bits.h"
#include "alloc/os/vm.h"
#include "test/support/cmocka.h"
#include "test/support/page_heap_walk.h"
#include "test/support/random.h"
#include "test/support/start.h"
#include "test/support/threads.h"

#define HEAP    (&sa_page_heap_ordinary)
#define THREADS 4
#define SPANS   60
#define STEPS   6000

static uint64_t now_ns = 1000000000; /* of the one thread that ticks */

/* The first word of each page says whose it is. */
static void mark(const struct sa_span *s, size_t from, uint64_t word)
{
    for (size_t i = from; i < s->pages; i++)
        *(uint64_t *)(s->start + (i << SA_PAGE_SHIFT)) = word + i;
}

static void check(const struct sa_span *s, uint64_t word)
{
    for (size_t i = 0; i < s->pages; i++)
        THREAD_CHECK(*(uint64_t *)(s->start + (i << SA_PAGE_SHIFT)) == word + i);
}

static void use(int index, void *unused)
{
    struct test_random r = {(uint64_t)index + 99};
    struct sa_span *spans[SPANS] = {NULL};

    (void)unused;
    for (int step = 0; step < STEPS; step++) {
        unsigned i = (unsigned)test_random_below(&r, SPANS);
        uint64_t word = ((uint64_t)index << 40) + ((uint64_t)i << 32);
        struct sa_span *s = spans[i];
        size_t n = test_random_size(&r, test_random_below(&r, 8) ? 7 : 10);

        if (!s) {
            s = sa_page_heap_alloc(HEAP, n, 1, index % 2 ? SA_PAGES_DENSE : SA_PAGES_ANY);
            THREAD_CHECK(s != NULL);
            for (size_t k = 0; s->zeroed && k < s->pages; k++)
                THREAD_CHECK(*(uint64_t *)(s->start + (k << SA_PAGE_SHIFT)) == 0);
            mark(s, 0, word);
            spans[i] = s;
            continue;
        }
        check(s, word);
        if (step % 5 == 0) {
            size_t old = s->pages;

            if (sa_page_heap_extend(HEAP, s, old + n))
                mark(s, old, word);
        } else if (step % 5 == 1) {
            sa_page_heap_shrink(HEAP, s, 1 + test_random_below(&r, s->pages));
        } else {
            sa_page_heap_free(HEAP, s, false);
            spans[i] = NULL;
        }
        if (index == 0 && step % 100 == 0)
            sa_page_heap_tick(HEAP, now_ns += SA_RELEASE_NS / 2);
        if (step % 40 == 20)
            sa_page_heap_step(HEAP);
        if (step % 300 == 150)
            sa_page_heap_release(HEAP, test_random_below(&r, 32ul << 20));
    }
    for (unsigned i = 0; i < SPANS; i++)
        if (spans[i]) {
            check(spans[i], ((uint64_t)index << 40) + ((uint64_t)i << 32));
            sa_page_heap_free(HEAP, spans[i], false);
        }
}

static void test_page_heap_serves_threads(void **state)
{
    struct sa_page_heap_stats stats;

    (void)state;
    test_threads_run(THREADS, use, NULL);
    test_threads_check();
    page_heap_check();
    sa_page_heap_stats(HEAP, &stats);
    assert_int_equal(stats.in_use_bytes, 0);
    assert_true(stats.released_ever_bytes > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_page_heap_serves_threads),
    };

    test_start_layers();
    return cmocka_run_group_tests_name("page_heap_threads", tests, NULL, NULL);
}
