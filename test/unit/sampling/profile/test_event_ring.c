/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ring of events: it keeps the last ones, in order, with references to their stacks, and gives
 * everything back. A reader without a lock, who follows the rule of event_ring.h, never takes a
 * torn record for a whole one.
 */
#include "sampling/profile/event_ring.h"

#include "alloc/base/atomic.h"
#include "alloc/base/attrs.h"
#include "test/support/cmocka.h"
#include "test/support/faults.h"
#include "test/support/start.h"
#include "test/support/threads.h"

static struct sa_stack *stack(uintptr_t n)
{
    uintptr_t pc[] = {n, n * 7, 3};

    return sa_stack_intern(pc, 3);
}

/* Event n: all fields follow from n. */
static struct sa_ring_event event_of(uint64_t n, struct sa_stack *s)
{
    return (struct sa_ring_event){.handle = n,
                                  .time_ns = n * 3,
                                  .free_time_ns = n * 5,
                                  .stack = s,
                                  .p = (double)n,
                                  .interval = (double)n + 1,
                                  .address = n * 16,
                                  .requested = n + 2,
                                  .allocated = n + 3,
                                  .align = n + 4,
                                  .tid = (uint32_t)n};
}

static void test_event_ring_keeps_the_last(void **state)
{
    struct sa_event_ring ring;
    struct sa_stack *a = stack(1), *b = stack(2);
    size_t cap;

    (void)state;
    assert_true(sa_event_ring_open(&ring, 1));
    cap = ring.cap;
    assert_true(cap >= 4096 / sizeof(struct sa_ring_event) && cap < 1000);
    for (uint64_t n = 0; n < 3 * cap + 5; n++) {
        struct sa_ring_event e = event_of(n, a);

        e.free_stack = n % 2 ? b : NULL;
        sa_event_ring_add(&ring, &e);
        assert_int_equal(sa_event_ring_count(&ring), n + 1 < cap ? n + 1 : cap);
        assert_int_equal(sa_event_ring_lost(&ring), n + 1 < cap ? 0 : n + 1 - cap);
        assert_int_equal(sa_event_ring_get(&ring, 0)->handle, sa_event_ring_lost(&ring));
        assert_int_equal(sa_event_ring_get(&ring, sa_event_ring_count(&ring) - 1)->handle, n);
    }
    assert_int_equal(a->references, 1 + cap);
    assert_in_range(b->references, 1 + cap / 2, 2 + cap / 2);
    sa_event_ring_trim(&ring); /* full: nothing to give back */
    assert_int_equal(ring.cap, cap);
    sa_event_ring_close(&ring);
    assert_int_equal(a->references, 1);
    assert_int_equal(b->references, 1);
    assert_null(ring.records);
    sa_stack_unref(a);
    sa_stack_unref(b);
}

static void test_event_ring_gives_back_what_is_unused(void **state)
{
    struct sa_event_ring ring;
    struct sa_stack *a = stack(1);

    (void)state;
    assert_true(sa_event_ring_open(&ring, 1 << 20));
    for (uint64_t n = 0; n < 100; n++) {
        struct sa_ring_event e = event_of(n, a);

        sa_event_ring_add(&ring, &e);
    }
    sa_event_ring_trim(&ring);
    assert_int_equal(ring.bytes, 12288); /* 100 times 120 */
    for (size_t i = 0; i < 100; i++)
        assert_int_equal(sa_event_ring_get(&ring, i)->handle, i);
    sa_event_ring_close(&ring);
    assert_int_equal(a->references, 1);
    sa_stack_unref(a);
    sa_event_ring_close(&ring); /* no ring: nothing happens */
}

static void test_event_ring_without_memory(void **state)
{
    struct sa_event_ring ring;

    (void)state;
    test_faults.mmap_after = 0;
    assert_false(sa_event_ring_open(&ring, 1 << 20));
    test_faults_clear();
}

/* The end: so many records were dropped for being overwritten meanwhile, or so many were written.
 */
#define DROPPED_MIN 1000
#define EVENTS_MAX  5000000

static struct sa_event_ring shared;
static struct sa_stack *shared_stack;
/* Atomic, written by the reader: records that it took for whole, and those that it dropped. */
static uint64_t kept, dropped;

static bool over(void)
{
    return sa_load_relaxed(&dropped) >= DROPPED_MIN ||
           sa_load_acquire(&shared.written) >= EVENTS_MAX;
}

static bool is_event(const struct sa_ring_event *e, uint64_t n)
{
    struct sa_ring_event is = event_of(n, shared_stack);

    return e->handle == n && e->time_ns == is.time_ns && e->free_time_ns == is.free_time_ns &&
           e->stack == shared_stack && e->p == is.p && e->interval == is.interval &&
           e->address == is.address && e->requested == is.requested &&
           e->allocated == is.allocated && e->align == is.align && e->tid == is.tid;
}

/* Reads as a process outside would. */
SA_RACES static void read_once(void)
{
    static struct sa_ring_event copy[64];
    uint64_t written = sa_load_acquire(&shared.written), begun;
    uint64_t from = written > shared.cap ? written - shared.cap : 0;

    for (uint64_t n = from; n < written; n++)
        copy[n % shared.cap] = ((volatile struct sa_ring_event *)shared.records)[n % shared.cap];
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    begun = sa_load_acquire(&shared.begun);
    for (uint64_t n = from; n < written; n++) {
        if (begun > n + shared.cap) {
            sa_count_add(&dropped, 1);
            continue;
        }
        THREAD_CHECK(is_event(&copy[n % shared.cap], n));
        sa_count_add(&kept, 1);
    }
}

/* Thread 0 writes while thread 1 reads. */
static void read_or_write(int index, void *unused)
{
    (void)unused;
    if (index == 1) {
        while (!over())
            read_once();
        return;
    }
    for (uint64_t n = 0; !over(); n++) {
        struct sa_ring_event e = event_of(n, shared_stack);

        sa_event_ring_add(&shared, &e);
    }
}

static void test_event_ring_is_read_from_outside(void **state)
{
    (void)state;
    shared_stack = stack(5);
    assert_true(sa_event_ring_open(&shared, 1));
    assert_true(shared.cap <= 64);
    test_threads_run(2, read_or_write, NULL);
    test_threads_check();
    assert_true(kept > 0);
    sa_event_ring_close(&shared);
    sa_stack_unref(shared_stack);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_event_ring_keeps_the_last),
        cmocka_unit_test(test_event_ring_gives_back_what_is_unused),
        cmocka_unit_test(test_event_ring_without_memory),
        cmocka_unit_test(test_event_ring_is_read_from_outside),
    };

    test_start_layers();
    return cmocka_run_group_tests_name("event_ring", tests, NULL, NULL);
}
