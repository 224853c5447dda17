/* SPDX-License-Identifier: Apache-2.0 */
/* Recordings of events: what a profile has of each sample and its free, also of blocks from before
 * the start; what stopping gives back; lack of memory. */
#include "sampling/record/recording.h"

#include "sampling/snapshot/profile_snapshot.h"
#include "test/support/faults.h"
#include "test/support/samples.h"
#include "test/support/start.h"

#include <errno.h>

static uint64_t start(size_t bytes)
{
    struct sa_event_ring ring;
    uint64_t handle;

    assert_true(sa_event_ring_open(&ring, bytes));
    handle = sa_live_start_events(&ring);
    assert_true(handle != 0);
    return handle;
}

static struct sa_profile *stop_recording(uint64_t handle)
{
    int error = 0;
    struct sa_profile *p = sa_snapshot_stop(handle, &error);

    if (!p)
        fail_msg("error %d", error);
    assert_int_equal(p->type, SALLOC_PROFILE_EVENTS);
    return p;
}

static void test_recording_of_events(void **state)
{
    struct sa_sample *before = sample_add(1, 64, 0.5), *a, *b;
    uint64_t handle = start(1 << 16), number;
    struct sa_stack *free_stack = before->stack;
    struct sa_profile *p;
    struct salloc_sample_event e[4];

    (void)state;
    assert_true(sa_live_wants_free_stacks());
    a = sample_add(2, 128, 0.25);
    b = sample_add(3, 256, 1);
    number = a->number;
    sa_stack_ref(free_stack);
    sa_live_remove(a, free_stack); /* takes the reference over */
    sa_live_remove(before, NULL);
    p = stop_recording(handle);
    assert_false(sa_live_wants_free_stacks()); /* and samples cost no more than before */
    assert_int_equal(sa_event_ring_count(&p->events), 4);
    assert_int_equal(sa_event_ring_lost(&p->events), 0);
    for (size_t i = 0; i < 4; i++)
        sa_profile_event(p, i, &e[i]);
    assert_int_equal(e[0].event, SALLOC_EVENT_ALLOCATED);
    assert_int_equal(e[0].handle, number);
    assert_int_equal(e[0].allocated_size, 128);
    assert_true(e[0].weight == 4 && e[0].depth > 0 && !e[0].free_stack && !e[0].free_time_ns);
    assert_int_equal(e[1].handle, b->number);
    assert_true(e[1].weight == 1);
    assert_int_equal(e[2].event, SALLOC_EVENT_FREED);
    assert_int_equal(e[2].handle, number);
    assert_true(e[2].free_depth > 0 && e[2].free_time_ns >= e[2].time_ns);
    assert_int_equal(e[2].time_ns, e[0].time_ns);
    assert_int_equal(e[3].event, SALLOC_EVENT_FREED);
    assert_true(e[3].handle < number && !e[3].free_stack && e[3].weight == 2);
    /* The buckets have the two allocations. */
    assert_int_equal(p->bucket_count, 2);
    assert_int_equal(p->buckets[0].samples + p->buckets[1].samples, 2);
    sa_profile_free(p);
    sa_live_remove(b, NULL);
}

/* The ring, the profile and its buckets hold references; freeing gives all of them back. */
static void test_recording_of_events_gives_back(void **state)
{
    struct sa_sample *s = sample_add(7, 64, 0.5);
    struct sa_stack *stack = s->stack;
    struct sa_profile *p;
    uint32_t references;
    uint64_t handle;

    (void)state;
    sample_remove(sample_add(7, 6400, 0.5)); /* the peak, which keeps references of its own */
    references = stack->references;
    handle = start(1);
    for (int i = 0; i < 1000; i++)
        sample_remove(sample_add(7, 64, 0.5));
    assert_true(stack->references > references);
    p = stop_recording(handle);
    assert_int_equal(sa_event_ring_count(&p->events) + sa_event_ring_lost(&p->events), 2000);
    sa_profile_free(p);
    assert_int_equal(stack->references, references);
    sa_live_remove(s, NULL);
}

static void test_recording_of_events_without_memory(void **state)
{
    uint64_t handle = start(1 << 16);
    int error = 0;

    (void)state;
    sa_live_remove(sample_add(9, 64, 0.5), NULL);
    test_faults.mmap_after = 0;
    assert_null(sa_snapshot_stop(handle, &error));
    assert_int_equal(error, ENOMEM);
    test_faults_clear();
    sa_live_remove(sample_add(9, 64, 0.5), NULL);
    {
        struct sa_profile *p = stop_recording(handle); /* it went on */

        assert_int_equal(sa_event_ring_count(&p->events), 4);
        sa_profile_free(p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_recording_of_events),
        cmocka_unit_test(test_recording_of_events_gives_back),
        cmocka_unit_test(test_recording_of_events_without_memory),
    };

    test_start_layers();
    return cmocka_run_group_tests_name("recording_events", tests, NULL, NULL);
}
