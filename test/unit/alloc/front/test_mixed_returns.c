/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When freed blocks go back to mixed spans at once (alloc/middle/mixed_returns.h): while mixed
 * spans grow, and from time to time; and that neither costs a program that goes on with the same
 * sizes. Each test is a process of its own, whose only ticks are those of the test.
 */
#include "alloc/base/size_class.h"
#include "alloc/cpu_cache/cpu_cache.h"
#include "alloc/fork/fork_gate.h"
#include "alloc/front/slow_path.h"
#include "alloc/maintain/maintenance.h"
#include "alloc/middle/mixed_internal.h"
#include "alloc/middle/mixed_returns.h"
#include "alloc/middle/mixed_spans.h"
#include "alloc/os/clock.h"
#include "alloc/page_heap/account/heap_types.h"
#include "test/support/child.h"
#include "test/support/cmocka.h"
#include "test/support/start.h"

#include <pthread.h>

/* Blocks that take mixed spans far beyond what they had. */
enum { LONG = 3000, MANY = (8 << 20) / LONG };

#define MINUTE_NS 60000000000ull

static void *blocks[MANY];
static uint64_t now;

static void *make(size_t size)
{
    return sa_front_alloc(size, 1, false);
}

static void make_many(void)
{
    for (int i = 0; i < MANY; i++)
        blocks[i] = make(LONG);
}

static void free_many(void)
{
    for (int i = 0; i < MANY; i++)
        sa_front_free_aligned(blocks[i], 0);
    sa_maintenance_release_requested(0); /* empties the caches */
}

/* Replaces each of them so many times. */
static void replace_many(int times)
{
    for (int i = 0; i < times * MANY; i++) {
        sa_front_free_aligned(blocks[i % MANY], 0);
        blocks[i % MANY] = make(LONG);
    }
}

/* Whether a block of that size, which comes from a mixed span, goes back there when it is freed,
 * and not to a cache. */
static bool goes_back(size_t size)
{
    const unsigned cls = sa_size_class_find(size);
    struct sa_cpu_class_stats before, after;
    void *p = make(size);

    CHILD_CHECK(sa_mixed_class((uintptr_t)p) == cls);
    sa_cpu_cache_class_stats(cls, &before);
    sa_front_free_aligned(p, 0);
    sa_cpu_cache_class_stats(cls, &after);
    CHILD_CHECK(after.frees == before.frees + 1);
    return !sa_mixed_class((uintptr_t)p);
}

static void begin(void)
{
    test_pin();
    CHILD_CHECK(sa_fork_gate_enter());
    now = sa_clock_coarse_ns();
    sa_maintenance_poll(now + 100000 * MINUTE_NS); /* the next pass is later still */
    sa_fork_gate_leave();
    sa_mixed_use = SA_MIXED_ALWAYS;
}

/* Blocks go back while mixed spans grow, and until as many have as growth is worth. They do not any
 * more while the program goes on with the same size, nor when all its blocks come and go. */
static void growth(void *unused)
{
    (void)unused;
    begin();
    CHILD_CHECK(!goes_back(LONG));
    make_many();
    CHILD_CHECK(goes_back(LONG) && goes_back(SA_SMALL_MAX + 1) && !goes_back(SA_SMALL_MAX));
    sa_mixed_returns_tick(now);
    CHILD_CHECK(goes_back(LONG));
    replace_many(20);
    CHILD_CHECK(!goes_back(LONG));
    for (int i = 0; i < 4; i++) {
        replace_many(4);
        free_many();
        make_many();
        CHILD_CHECK(!goes_back(LONG));
    }
}

/* It ends when nothing went back between two ticks. */
static void nothing_goes_back(void *unused)
{
    (void)unused;
    begin();
    make_many();
    CHILD_CHECK(goes_back(LONG));
    sa_mixed_returns_tick(now);
    CHILD_CHECK(sa_mixed_returns);
    sa_mixed_returns_tick(now);
    CHILD_CHECK(!goes_back(LONG));
}

/* It ends when as many went back as may, and again after more growth. */
static void all_go_back(void *unused)
{
    static void *more[MANY];

    (void)unused;
    begin();
    make_many();
    replace_many(20);
    CHILD_CHECK(!goes_back(LONG));
    for (int i = 0; i < MANY; i++)
        more[i] = make(LONG);
    CHILD_CHECK(goes_back(LONG));
    replace_many(20);
    CHILD_CHECK(!goes_back(LONG));
    for (int i = 0; i < MANY; i++)
        sa_front_free_aligned(more[i], 0);
}

/* What growth was worth is forgotten at a tick, but for a part that what is in use is worth. */
static void program_is_small_now(void *unused)
{
    (void)unused;
    begin();
    make_many();
    for (int i = MANY / 16; i < MANY; i++)
        sa_front_free_aligned(blocks[i], 0);
    CHILD_CHECK(goes_back(LONG));
    sa_mixed_returns_tick(now);
    for (int i = 0; i < MANY; i++) {
        sa_front_free_aligned(blocks[i % (MANY / 16)], 0);
        blocks[i % (MANY / 16)] = make(LONG);
    }
    CHILD_CHECK(!goes_back(LONG));
}

/* It ends when more than two of three blocks could not go back because of the lock. */
static void lock_is_wanted(void *unused)
{
    (void)unused;
    begin();
    make_many();
    for (unsigned refused = 512; refused <= 513; refused++) {
        CHILD_CHECK(goes_back(LONG));
        for (unsigned i = 0; i < refused; i++)
            sa_mixed_returns_refused();
        for (int i = 1; i < 256; i++)
            CHILD_CHECK(goes_back(LONG));
    }
    CHILD_CHECK(!goes_back(LONG));
}

/* It ends when no class takes blocks from mixed spans any more. */
static void memory_is_not_wasted(void *unused)
{
    (void)unused;
    begin();
    make_many();
    CHILD_CHECK(goes_back(LONG));
    sa_mixed_returns_tick(now + MINUTE_NS);
    CHILD_CHECK(!goes_back(LONG));
}

/* A tick at so many nanoseconds from the beginning, while memory is wasted. */
static void tick_after(uint64_t ns)
{
    sa_page_heap_lean_ns = now + ns + 1;
    sa_mixed_returns_tick(now + ns);
}

/* Each ten minutes, as many bytes may go back as are in use. */
static void time_passes(void *unused)
{
    (void)unused;
    begin();
    make_many();
    replace_many(20);
    tick_after(0);
    for (uint64_t minute = 10; minute <= 20; minute += 10) {
        tick_after(minute * MINUTE_NS - 1);
        CHILD_CHECK(!goes_back(LONG));
        tick_after(minute * MINUTE_NS);
        CHILD_CHECK(goes_back(LONG));
        replace_many(2);
        CHILD_CHECK(!goes_back(LONG));
    }
}

static void *hold_the_lock(void *held)
{
    pthread_barrier_t *barrier = held;

    sa_lock_acquire(&sa_mixed_state.lock, SA_RANK_MIXED);
    pthread_barrier_wait(barrier);
    pthread_barrier_wait(barrier);
    sa_lock_release(&sa_mixed_state.lock, SA_RANK_MIXED);
    return NULL;
}

/* A block that goes to a cache, because another thread has the lock, is freed again. */
static void freed_twice(void *unused)
{
    pthread_barrier_t held;
    pthread_t other;

    (void)unused;
    begin();
    make_many();
    CHILD_CHECK(sa_mixed_returns);
    CHILD_CHECK(!pthread_barrier_init(&held, NULL, 2));
    CHILD_CHECK(!pthread_create(&other, NULL, hold_the_lock, &held));
    pthread_barrier_wait(&held);
    sa_front_free_aligned(blocks[0], 0);
    pthread_barrier_wait(&held);
    CHILD_CHECK(!pthread_join(other, NULL));
    CHILD_CHECK(sa_mixed_class((uintptr_t)blocks[0]) != 0);
    sa_front_free_aligned(blocks[0], 0);
}

static void test_blocks_go_back_while_mixed_spans_grow(void **state)
{
    (void)state;
    test_child_passes(growth, NULL);
}

static void test_it_ends(void **state)
{
    (void)state;
    test_child_passes(nothing_goes_back, NULL);
    test_child_passes(all_go_back, NULL);
    test_child_passes(program_is_small_now, NULL);
    test_child_passes(lock_is_wanted, NULL);
    test_child_passes(memory_is_not_wasted, NULL);
}

static void test_blocks_go_back_from_time_to_time(void **state)
{
    (void)state;
    test_child_passes(time_passes, NULL);
}

static void test_double_frees_with_and_without_the_lock_are_found(void **state)
{
    (void)state;
    test_child_aborts(freed_twice, NULL, "double free");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks_go_back_while_mixed_spans_grow),
        cmocka_unit_test(test_it_ends),
        cmocka_unit_test(test_blocks_go_back_from_time_to_time),
        cmocka_unit_test(test_double_frees_with_and_without_the_lock_are_found),
    };

    test_start(TEST_CACHE_LIMIT);
    return cmocka_run_group_tests_name("mixed_returns", tests, NULL, NULL);
}
