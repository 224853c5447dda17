/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Housekeeping: a pass is due twice a second and is run by whoever comes by, memory that was freed
 * goes back within seconds although the program calls nothing, and on request at once.
 *
 * The clock is the test's: the program is linked with --wrap for sa_vdso_clock_ns.
 */
#include "alloc/maintain/maintenance.h"
#include "alloc/maintain/release_rate.h"

#include "alloc/cpu_cache/cpu_cache.h"
#include "alloc/front/slow_path.h"
#include "alloc/page_heap/page_heap.h"
#include "test/support/cmocka.h"
#include "test/support/start.h"
#include "test/support/threads.h"

#include <string.h>
#include <time.h>

#define MIB (1ul << 20)

static uint64_t now_ns = 1000000000; /* atomic */

uint64_t __wrap_sa_vdso_clock_ns(clockid_t clock);

uint64_t __wrap_sa_vdso_clock_ns(clockid_t clock)
{
    (void)clock;
    return __atomic_load_n(&now_ns, __ATOMIC_RELAXED);
}

/* Hugepages that are still to be made after this pass, and the CPU time that a call takes; what was
 * asked for. */
static struct {
    unsigned left, calls;
    uint64_t each_ns, max_ns;
} collapse; /* atomic */

uint64_t __wrap_sa_page_heap_collapse(struct sa_page_heap *heap, uint64_t max_ns);

uint64_t __wrap_sa_page_heap_collapse(struct sa_page_heap *heap, uint64_t max_ns)
{
    (void)heap;
    if (!__atomic_load_n(&collapse.left, __ATOMIC_RELAXED))
        return 0;
    collapse.left--;
    collapse.calls++;
    collapse.max_ns = max_ns;
    return collapse.each_ns;
}

static void let_pass(double seconds)
{
    __atomic_fetch_add(&now_ns, (uint64_t)(seconds * 1e9), __ATOMIC_RELAXED);
}

static struct sa_page_heap_stats heap(void)
{
    struct sa_page_heap_stats s;

    sa_page_heap_stats(&sa_page_heap_ordinary, &s);
    return s;
}

/* Memory that the allocator holds for itself. */
static size_t resident(void)
{
    struct sa_page_heap_stats s = heap();

    return s.mapped_bytes - s.released_bytes;
}

/* Allocates blocks, writes them, frees them all. */
static void use_and_free(size_t block, size_t sum)
{
    static void *blocks[1 << 20];
    size_t n = sum / block;

    assert_true(n <= TEST_COUNT(blocks));
    for (size_t i = 0; i < n; i++) {
        blocks[i] = sa_front_alloc(block, 1, false);
        assert_non_null(blocks[i]);
        memset(blocks[i], 1, 1);
    }
    assert_true(heap().in_use_bytes >= sum);
    for (size_t i = 0; i < n; i++)
        sa_front_free(blocks[i]);
}

/* The program goes on with next to nothing: two blocks in a tenth of a second. */
static void little_work(double seconds)
{
    for (double t = 0; t < seconds; t += 0.1) {
        for (int i = 0; i < 2; i++)
            sa_front_free(sa_front_alloc(300, 1, false));
        let_pass(0.1);
    }
}

static void memory_goes_back(size_t block)
{
    use_and_free(block, 200 * MIB);
    little_work(10);
    /* What is left: one MiB that the heap keeps, and the caches' limit twice. */
    assert_in_range(resident(), 0, 1 * MIB + 4 * TEST_CACHE_LIMIT);
}

static void test_maintain_gives_large_blocks_back(void **state)
{
    (void)state;
    memory_goes_back(MIB);
}

static void test_maintain_gives_middle_blocks_back(void **state)
{
    (void)state;
    memory_goes_back(65536);
}

static void test_maintain_gives_small_blocks_back(void **state)
{
    (void)state;
    memory_goes_back(256);
}

/* Nothing is returned while it is used again and again. */
static void test_maintain_leaves_busy_memory(void **state)
{
    uint64_t released;

    (void)state;
    use_and_free(65536, 20 * MIB);
    released = heap().released_ever_bytes;
    for (int round = 0; round < 20; round++) {
        use_and_free(65536, 20 * MIB);
        let_pass(0.3);
    }
    assert_in_range(heap().released_ever_bytes - released, 0, 20 * MIB);
}

static void test_maintain_release_gives_back_at_once(void **state)
{
    (void)state;
    use_and_free(500, 30 * MIB);
    assert_true(sa_maintenance_release(PTRDIFF_MAX) > 0);
    assert_int_equal(heap().backed_bytes, 0);
    assert_int_equal(resident(), heap().in_use_bytes);
    assert_int_equal(sa_maintenance_release(PTRDIFF_MAX), 0);
}

static void test_maintain_release_of_a_part(void **state)
{
    void *used = sa_front_alloc(100 * MIB, 1, false); /* half as much may be free */
    unsigned long given;

    (void)state;
    use_and_free(MIB, 40 * MIB);
    given = sa_maintenance_release(10 * MIB);
    assert_in_range(given, 10 * MIB, 11 * MIB);
    assert_true(heap().backed_bytes >= 29 * MIB);
    sa_front_free(used);
    sa_maintenance_release(PTRDIFF_MAX);
}

/* Memory that is used over and over is not idle: only a rate gives it back, and no more than it
 * says. */
static void test_maintain_releases_at_the_rate(void **state)
{
    struct sa_maintenance_stats before, after;

    (void)state;
    sa_maintenance_release(PTRDIFF_MAX);
    sa_release_rate_set(2 * MIB);
    assert_int_equal(sa_release_rate_get(), 2 * MIB);
    little_work(1); /* the rate counts from here */
    use_and_free(MIB, 30 * MIB);
    sa_maintenance_stats(&before);
    for (int i = 0; i < 40; i++) { /* ten seconds */
        let_pass(0.25);
        use_and_free(MIB, 30 * MIB);
    }
    sa_maintenance_stats(&after);
    /* In whole hugepages; what was given too much is taken into account. */
    assert_in_range(after.steady_bytes - before.steady_bytes, 18 * MIB, 23 * MIB);
    /* A long sleep earns no more than ten seconds. */
    let_pass(1000);
    sa_maintenance_stats(&before);
    use_and_free(MIB, 30 * MIB);
    sa_maintenance_stats(&after);
    assert_in_range(after.steady_bytes - before.steady_bytes, 0, 22 * MIB);
    sa_release_rate_set(0);
    sa_maintenance_stats(&before);
    little_work(2);
    sa_maintenance_stats(&after);
    assert_int_equal(after.steady_bytes, before.steady_bytes);
    assert_true(after.passes > before.passes);
}

/* Who only calls this now and then gives everything back within ten seconds, and is then let sleep
 * for long. */
static void background_gives_back(size_t block)
{
    double seconds = 0;
    unsigned ms = 0;

    use_and_free(block, 100 * MIB);
    do { /* at least once: the frees may have released as much */
        ms = sa_maintenance_background();
        assert_int_equal(ms, 500);
        let_pass(ms * 1e-3);
        seconds += ms * 1e-3;
    } while (seconds < 10 && resident() > 1 * MIB + 4 * TEST_CACHE_LIMIT);
    assert_in_range(resident(), 0, 1 * MIB + 4 * TEST_CACHE_LIMIT);
    for (int i = 0; i < 40 && ms == 500; i++) {
        ms = sa_maintenance_background();
        let_pass(ms * 1e-3);
    }
    assert_int_equal(ms, 4000);
    assert_int_equal(sa_maintenance_background(), 4000);
    sa_front_free(sa_front_alloc(MIB, 1, false));
    assert_int_equal(sa_maintenance_background(), 500);
}

static void test_maintain_in_the_background(void **state)
{
    (void)state;
    background_gives_back(300);
    background_gives_back(40000);
    background_gives_back(2 * MIB);
}

/* A call of malloc, after a while: how many hugepages it was asked to make. */
static unsigned collapses_after(double seconds)
{
    unsigned before = collapse.calls;

    let_pass(seconds);
    sa_front_free(sa_front_alloc(MIB, 1, false));
    return collapse.calls - before;
}

/* One malloc is not held up by more than one hugepage that takes long, nor the program by more than
 * an eightieth of the time; and where a thread comes by, it does all of it. */
static void test_maintain_collapses_in_steps(void **state)
{
    (void)state;
    let_pass(9);                /* since a thread came by */
    collapse.each_ns = 3000000; /* the next after 240 ms, then */
    collapse.left = 1000;
    assert_int_equal(collapses_after(1), 1);
    assert_int_equal(collapse.max_ns, 500000);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(collapses_after(0.1), 0);
        assert_int_equal(collapses_after(0.13), 0);
        assert_int_equal(collapses_after(0.02), 1);
    }
    collapse.each_ns = 600000;
    assert_int_equal(collapses_after(0.25), 1);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(collapses_after(0.04), 0);
        assert_int_equal(collapses_after(0.009), 1);
    }
    collapse.each_ns = 16000000; /* passes in between */
    assert_int_equal(collapses_after(0.061), 1);
    assert_int_equal(collapses_after(0.51), 0);
    assert_int_equal(collapses_after(0.76), 0);
    assert_int_equal(collapses_after(0.02), 1);
    let_pass(1.27);
    /* Nothing is left: not asked for before the next pass, which finds more. */
    collapse.left = 0;
    assert_int_equal(collapses_after(0.02), 0);
    collapse.left = 1000;
    assert_int_equal(collapses_after(0.4), 0);
    assert_int_equal(collapses_after(0.11), 1);

    collapse.calls = 0;
    assert_int_equal(sa_maintenance_background(), 500);
    assert_int_equal(collapse.calls, 1);
    assert_int_equal(collapse.max_ns, 6250000);
    for (int i = 0; i < 7; i++)
        assert_int_equal(collapses_after(1), 0);
    collapse.calls = 0;
    assert_int_equal(sa_maintenance_background(), 500);
    assert_int_equal(collapse.calls, 1);
    assert_int_equal(collapses_after(9), 1); /* it has gone */
    collapse.left = 0;
}

/* The idle watch leaves the work to slow paths while they do it. Then it does it. It ends after
 * eight seconds without a reason to stay. */
static void test_maintain_watches_for_idleness(void **state)
{
    struct sa_maintenance_stats before, after;
    struct sa_idle_watch watch = {0};
    unsigned looks = 0, ms;

    (void)state;
    sa_maintenance_stats(&before);
    for (int i = 0; i < 20; i++) { /* a pass by a slow path before each look, and much to release */
        let_pass(0.6);
        sa_front_free(sa_front_alloc(300000, 1, false));
        sa_page_heap_swings = 1; /* a pass may have cleared it */
        sa_maintenance_stats(&after);
        assert_int_equal(after.passes, before.passes + 1);
        before = after;
        assert_int_equal(sa_maintenance_watch(&watch), 1000);
    }
    sa_page_heap_swings = 0;
    while ((ms = sa_maintenance_watch(&watch)) != 0) {
        assert_int_equal(ms, 500);
        assert_true(looks++ < 16);
        let_pass(0.5);
    }
    sa_maintenance_stats(&after);
    assert_int_equal(looks, 16);
    assert_true(after.passes >= before.passes + 15);
    /* A slow path now and then is no reason to stay, if little is free. */
    watch = (struct sa_idle_watch){0};
    for (looks = 0; (ms = sa_maintenance_watch(&watch)) != 0; looks++) {
        assert_true(looks < 16);
        let_pass(0.7);
        sa_front_free(sa_front_alloc(300000, 1, false));
    }
}

/* A thread that sleeps is woken when much is freed; a wake between its decision to sleep and its
 * sleep is not lost. */
static void sleeper(int index, void *arg)
{
    uint32_t *woken = arg, wakes;

    if (index == 0) {
        wakes = sa_maintenance_wakes();
        __atomic_store_n(woken, 1, __ATOMIC_RELEASE);
        for (int i = 0; i < 100 && sa_maintenance_wakes() == wakes; i++)
            sa_maintenance_sleep(wakes, 4000);
        THREAD_CHECK(sa_maintenance_wakes() != wakes);
        sa_maintenance_sleep(wakes, 1000000); /* too late: returns at once */
        __atomic_store_n(woken, 2, __ATOMIC_RELEASE);
        return;
    }
    while (__atomic_load_n(woken, __ATOMIC_ACQUIRE) != 2) {
        for (int i = 0; i < 20; i++)
            sa_front_free(sa_front_alloc(MIB, 1, false));
        if (__atomic_load_n(woken, __ATOMIC_ACQUIRE) == 1)
            let_pass(0.001);
    }
}

static void test_maintain_wakes_who_sleeps(void **state)
{
    uint32_t woken = 0;

    (void)state;
    test_threads_run(2, sleeper, &woken);
    test_threads_check();
}

static void test_maintain_relieves_pressure(void **state)
{
    struct sa_maintenance_stats before, after;

    (void)state;
    use_and_free(500, 30 * MIB);
    sa_maintenance_stats(&before);
    sa_maintenance_relieve();
    sa_maintenance_stats(&after);
    assert_int_equal(heap().backed_bytes, 0);
    assert_int_equal(after.pressures, before.pressures + 1);
    assert_true(after.pressure_bytes - before.pressure_bytes > MIB);
}

/* In the first slow path after most of the heap was freed, the heap of sampled blocks releases what
 * is free. */
static void test_maintain_answers_a_fall(void **state)
{
    struct sa_page_heap_stats sampled;
    struct sa_span *span =
        sa_page_heap_alloc(&sa_page_heap_sampled, 4 * MIB >> SA_PAGE_SHIFT, 1, SA_PAGES_ANY);
    void *p;

    (void)state;
    assert_non_null(span);
    sa_page_heap_free(&sa_page_heap_sampled, span, false);
    sa_page_heap_stats(&sa_page_heap_sampled, &sampled);
    assert_true(sampled.backed_bytes >= 4 * MIB);
    sa_page_heap_fall = SA_FALL_BEGUN;
    p = sa_front_alloc(MIB, 1, false);
    assert_int_equal(sa_page_heap_fall, SA_FALL_ANSWERED);
    sa_page_heap_stats(&sa_page_heap_sampled, &sampled);
    assert_int_equal(sampled.backed_bytes, 0);
    sa_page_heap_fall = SA_FALL_NONE;
    sa_front_free(p);
}

static void poll_in_thread(int index, void *arg)
{
    (void)arg;
    for (int i = 0; i < 2000; i++) {
        void *p = sa_front_alloc((size_t)index * 1000 + 16, 1, false);

        THREAD_CHECK(p != NULL);
        sa_front_free(p);
        let_pass(0.01);
        if (i % 500 == 0)
            sa_maintenance_release(MIB);
    }
}

/* Passes that are due all the time, in several threads. */
static void test_maintain_runs_in_any_thread(void **state)
{
    (void)state;
    test_threads_run(4, poll_in_thread, NULL);
    test_threads_check();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_maintain_gives_large_blocks_back),
        cmocka_unit_test(test_maintain_gives_middle_blocks_back),
        cmocka_unit_test(test_maintain_gives_small_blocks_back),
        cmocka_unit_test(test_maintain_leaves_busy_memory),
        cmocka_unit_test(test_maintain_release_gives_back_at_once),
        cmocka_unit_test(test_maintain_release_of_a_part),
        cmocka_unit_test(test_maintain_releases_at_the_rate),
        cmocka_unit_test(test_maintain_in_the_background),
        cmocka_unit_test(test_maintain_collapses_in_steps),
        cmocka_unit_test(test_maintain_watches_for_idleness),
        cmocka_unit_test(test_maintain_wakes_who_sleeps),
        cmocka_unit_test(test_maintain_relieves_pressure),
        cmocka_unit_test(test_maintain_answers_a_fall),
        cmocka_unit_test(test_maintain_runs_in_any_thread),
    };

    test_start(TEST_CACHE_LIMIT);
    test_pin();
    return cmocka_run_group_tests_name("maintain", tests, NULL, NULL);
}
