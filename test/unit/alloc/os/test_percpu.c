/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The critical sections, one at a time: each operation against a model in C that follows the
 * pseudo-code of percpu.h, on a slab of the test's own. Once on libc's rseq area (where there is
 * one), once on the thread's own.
 */
#include "alloc/hot/hot.h"

#include "alloc/os/rseq.h"
#include "alloc/os/thread.h"
#include "test/support/cmocka.h"
#include "test/support/percpu_slab.h"
#include "test/support/random.h"
#include "test/support/start.h"

#define SLOTS 200
#define CLS   2

static struct sa_slab *slab, empty;

/* The model of class CLS. */
static struct {
    uint32_t cap, until, avail;
    void *objs[SLOTS];
} model;

static uintptr_t next_object;

/* Never used before, so that no two pushes are of the same object. */
static void *new_object(void)
{
    return (void *)(next_object += 16);
}

static void model_set(uint32_t avail, uint32_t until, uint32_t cap)
{
    model.cap = cap;
    model.until = until;
    model.avail = avail;
    for (uint32_t i = 0; i < avail; i++)
        slab->header[CLS].slots[i] = model.objs[i] = new_object();
    slab->header[CLS].state = sa_state_make(avail, until, cap);
}

static void assert_model(void)
{
    uint64_t h = slab->header[CLS].state;

    assert_int_equal(sa_state_avail(h), model.avail);
    assert_int_equal(sa_state_until(h), model.until);
    assert_int_equal(sa_state_cap(h), model.cap);
    assert_int_equal(h & (SA_BORROWS | 7), 0);
    assert_memory_equal(slab->header[CLS].slots, model.objs, model.avail * sizeof(void *));
    assert_null(slab->header[CLS].slots[-1]);
    assert_int_equal(slab->header[1].state, 0);
    assert_int_equal(slab->header[3].state, 0);
}

/* All CPUs (or thread numbers) lead to the slab. */
static void use_slab(struct sa_slab *s)
{
    sa_hot.slab_guard[0] = sa_hot.slab_guard[1] = &empty;
    for (size_t i = 0; i < SA_SLABS; i++)
        sa_hot.slabs[i] = s;
}

static int use_rseq(void **state)
{
    (void)state;
    test_pin();
    sa_hot.rseq_offset = sa_rseq.offset;
    slab = test_slab_new(SLOTS);
    use_slab(slab);
    return 0;
}

static int use_thread_area(void **state)
{
    (void)state;
    sa_hot.rseq_offset = (const char *)&sa_thread.area - (const char *)sa_thread_pointer();
    sa_thread.area.cpu_id = 5;
    slab = test_slab_new(SLOTS);
    use_slab(slab);
    return 0;
}

static int drop_slab(void **state)
{
    (void)state;
    use_slab(&empty);
    free(slab);
    return 0;
}

static void pop(void)
{
    void *obj = sa_percpu_pop(CLS);

    if (model.avail == 0 || model.until == 0) {
        assert_null(obj);
    } else {
        model.avail--;
        model.until--;
        assert_ptr_equal(obj, model.objs[model.avail]);
    }
}

static void push(void)
{
    void *obj = new_object();

    if (model.avail == model.cap) {
        assert_int_equal(sa_percpu_push(CLS, obj), SA_PUSH_FULL);
    } else {
        assert_int_equal(sa_percpu_push(CLS, obj), SA_PUSHED);
        model.objs[model.avail++] = obj;
    }
}

static void push_same_again(void)
{
    if (model.avail == 0)
        return;
    assert_int_equal(sa_percpu_push(CLS, model.objs[model.avail - 1]),
                     model.avail == model.cap ? SA_PUSH_FULL : SA_PUSH_TWICE);
}

static void push_batch(size_t n)
{
    size_t room = model.cap - model.avail, fit = sa_min(n, room);
    void *objs[SLOTS + 10];

    for (size_t i = 0; i < n; i++)
        objs[i] = new_object();
    assert_int_equal(sa_percpu_push_batch(CLS, objs, n), fit);
    memcpy(model.objs + model.avail, objs, fit * sizeof(void *));
    model.avail += (uint32_t)fit;
}

static void pop_batch(size_t n)
{
    size_t k = sa_min(n, model.avail);
    void *objs[SLOTS + 10];

    memset(objs, 0xff, sizeof(objs));
    assert_int_equal(sa_percpu_pop_batch(CLS, objs, n), k);
    model.avail -= (uint32_t)k;
    assert_memory_equal(objs, model.objs + model.avail, k * sizeof(void *));
    for (size_t i = k; i < SLOTS + 10; i++)
        assert_int_equal((uintptr_t)objs[i], UINTPTR_MAX);
}

static void replace(struct test_random *r)
{
    uint64_t now = slab->header[CLS].state, value;
    uint32_t cap = (uint32_t)(model.avail + test_random_below(r, SLOTS - model.avail + 1));
    uint32_t until = (uint32_t)test_random_below(r, 300);
    int32_t cpu = sa_percpu_cpu();

    value = sa_state_make(model.avail, until, cap);
    switch (test_random_below(r, 4)) {
    case 0: /* the header is another */
        assert_false(
            sa_percpu_replace(cpu, slab, CLS, now ^ 1ull << test_random_below(r, 64), value));
        return;
    case 1: /* the CPU is */
        assert_false(sa_percpu_replace(cpu + 1, slab, CLS, now, value));
        assert_false(sa_percpu_replace(-1, slab, CLS, now, value));
        return;
    case 2: /* the slab is */
        assert_false(sa_percpu_replace(cpu, &empty, CLS, now, value));
        return;
    default:
        assert_true(sa_percpu_replace(cpu, slab, CLS, now, value));
        model.until = until;
        model.cap = cap;
    }
}

/* To the slots of class 3, which nobody uses, and back. Only while nothing is filled. */
static void move(struct test_random *r)
{
    void **from = slab->header[CLS].slots, **own = slab->slot + CLS * (SLOTS + 1) + 1;
    void **to = from == own ? slab->header[3].slots : own;
    uint64_t now = slab->header[CLS].state;
    int32_t cpu = sa_percpu_cpu();

    if (model.avail && test_random_below(r, 4))
        pop_batch(model.avail);
    if (model.avail) {
        assert_false(sa_percpu_move(cpu, slab, CLS, now & ~(uint64_t)SA_FILLED_MASK, to));
        return;
    }
    now = slab->header[CLS].state;
    assert_false(sa_percpu_move(cpu, slab, CLS, now ^ 1ull << test_random_below(r, 64), to));
    assert_false(sa_percpu_move(cpu + 1, slab, CLS, now, to));
    assert_false(sa_percpu_move(cpu, &empty, CLS, now, to));
    assert_ptr_equal(slab->header[CLS].slots, from);
    assert_true(sa_percpu_move(cpu, slab, CLS, now, to));
    assert_ptr_equal(slab->header[CLS].slots, to);
    assert_int_equal(slab->header[CLS].state, now);
}

static void test_percpu_random_operations_match_model(void **state)
{
    struct test_random r = {0x9e1};

    (void)state;
    model_set(0, 100, 50);
    for (int step = 0; step < 300000; step++) {
        switch (test_random_below(&r, 13)) {
        case 0:
        case 1:
        case 2:
        case 3:
            pop();
            break;
        case 4:
        case 5:
        case 6:
        case 7:
            push();
            break;
        case 8:
            push_same_again();
            break;
        case 9:
            push_batch(1 + test_random_below(&r, test_random_below(&r, 10) ? 20 : SLOTS + 5));
            break;
        case 10:
            pop_batch(1 + test_random_below(&r, test_random_below(&r, 10) ? 20 : SLOTS + 5));
            break;
        case 11:
            move(&r);
            break;
        default:
            replace(&r);
        }
        assert_model();
    }
}

static void test_percpu_zero_header_accepts_nothing(void **state)
{
    void *obj = new_object(), *out[4];

    (void)state;
    model_set(0, 0, 0);
    assert_null(sa_percpu_pop(CLS));
    assert_int_equal(sa_percpu_push(CLS, obj), SA_PUSH_FULL);
    assert_int_equal(sa_percpu_push_batch(CLS, &obj, 1), 0);
    assert_int_equal(sa_percpu_pop_batch(CLS, out, 4), 0);
    assert_model();
}

static void test_percpu_stopped_slab_accepts_nothing(void **state)
{
    void *obj = new_object(), *out[4];
    uint64_t h;

    (void)state;
    model_set(3, 3, 10);
    h = slab->header[CLS].state;
    use_slab(&empty);
    assert_null(sa_percpu_pop(CLS));
    assert_int_equal(sa_percpu_push(CLS, obj), SA_PUSH_FULL);
    assert_int_equal(sa_percpu_push_batch(CLS, &obj, 1), 0);
    assert_int_equal(sa_percpu_pop_batch(CLS, out, 4), 0);
    assert_false(sa_percpu_replace(sa_percpu_cpu(), slab, CLS, h, 0));
    use_slab(slab);
    assert_model();
}

/* The largest numbers that fit the header: neither count may disturb the other. */
static void test_percpu_counts_at_their_limits(void **state)
{
    static struct sa_slab *large;
    void **slots;

    (void)state;
    large = test_slab_new(SA_SLOTS_MAX);
    use_slab(large);
    slots = large->header[CLS].slots;
    large->header[CLS].state = sa_state_make(0, SA_UNTIL_MAX, SA_SLOTS_MAX);
    for (uint32_t i = 0; i < SA_SLOTS_MAX; i++) {
        assert_int_equal(sa_percpu_push(CLS, new_object()), SA_PUSHED);
        assert_int_equal(large->header[CLS].state,
                         sa_state_make(i + 1, SA_UNTIL_MAX, SA_SLOTS_MAX));
    }
    assert_int_equal(sa_percpu_push(CLS, new_object()), SA_PUSH_FULL);
    for (uint32_t i = SA_SLOTS_MAX; i-- > 0;) {
        assert_ptr_equal(sa_percpu_pop(CLS), slots[i]);
        assert_int_equal(large->header[CLS].state,
                         sa_state_make(i, SA_UNTIL_MAX - (SA_SLOTS_MAX - i), SA_SLOTS_MAX));
    }
    assert_null(sa_percpu_pop(CLS)); /* empty, the countdown still running */
    large->header[CLS].state = sa_state_make(SA_SLOTS_MAX, 1, SA_SLOTS_MAX);
    assert_non_null(sa_percpu_pop(CLS));
    assert_null(sa_percpu_pop(CLS)); /* objects, but the countdown has ended */
    assert_int_equal(large->header[CLS].state, sa_state_make(SA_SLOTS_MAX - 1, 0, SA_SLOTS_MAX));
    use_slab(slab);
    free(large);
}

/* A capacity below what the class holds (it was lowered): pops go on, pushes do not. */
static void test_percpu_holds_more_than_its_capacity(void **state)
{
    void *objs[2] = {new_object(), new_object()};

    (void)state;
    model_set(20, 100, 30);
    slab->header[CLS].state = sa_state_make(20, 100, 10);
    assert_int_equal(sa_percpu_push(CLS, objs[0]), SA_PUSH_FULL);
    assert_int_equal(sa_percpu_push_batch(CLS, objs, 2), 0);
    assert_ptr_equal(sa_percpu_pop(CLS), model.objs[19]);
}

/* In an empty cache the word below the first slot is 0, which no object is. */
static void test_percpu_tells_twice_from_a_stale_slot(void **state)
{
    void *obj;

    (void)state;
    model_set(1, 100, 10);
    obj = sa_percpu_pop(CLS);
    assert_int_equal(sa_percpu_push(CLS, obj), SA_PUSHED);
    assert_int_equal(sa_percpu_push(CLS, obj), SA_PUSH_TWICE);
    assert_ptr_equal(sa_percpu_pop(CLS), obj);
    assert_int_equal(sa_percpu_push(CLS, obj), SA_PUSHED); /* its slot still holds it: not twice */
}

/* A thread whose rseq is not registered has cpu_id -1 or -2. */
static void test_percpu_unregistered_thread_goes_slow(void **state)
{
    void *obj = new_object(), *out[2];

    (void)state;
    model_set(5, 100, 10);
    for (int32_t id = -2; id < 0; id++) {
        sa_thread.area.cpu_id = id;
        assert_int_equal(sa_percpu_cpu(), id);
        assert_null(sa_percpu_pop(CLS));
        assert_int_equal(sa_percpu_push(CLS, obj), SA_PUSH_FULL);
        assert_int_equal(sa_percpu_push_batch(CLS, &obj, 1), 0);
        assert_int_equal(sa_percpu_pop_batch(CLS, out, 2), 0);
    }
    sa_thread.area.cpu_id = 5;
    assert_model();
}

static void test_percpu_numbers_are_the_threads_slab(void **state)
{
    (void)state;
    model_set(1, 1, 1);
    use_slab(&empty);
    sa_hot.slabs[5] = slab;
    assert_non_null(sa_percpu_pop(CLS));
    sa_hot.slabs[5] = &empty;
    sa_hot.slabs[SA_SLABS - 1] = slab;
    sa_thread.area.cpu_id = SA_SLABS - 1;
    assert_int_equal(sa_percpu_push(CLS, new_object()), SA_PUSHED);
    sa_thread.area.cpu_id = 5;
    use_slab(slab);
}

#define COMMON_TESTS(setup)                                                                        \
    cmocka_unit_test_setup_teardown(test_percpu_random_operations_match_model, setup, drop_slab),  \
        cmocka_unit_test_setup_teardown(test_percpu_zero_header_accepts_nothing, setup,            \
                                        drop_slab),                                                \
        cmocka_unit_test_setup_teardown(test_percpu_stopped_slab_accepts_nothing, setup,           \
                                        drop_slab),                                                \
        cmocka_unit_test_setup_teardown(test_percpu_counts_at_their_limits, setup, drop_slab),     \
        cmocka_unit_test_setup_teardown(test_percpu_holds_more_than_its_capacity, setup,           \
                                        drop_slab),                                                \
        cmocka_unit_test_setup_teardown(test_percpu_tells_twice_from_a_stale_slot, setup,          \
                                        drop_slab)

int main(void)
{
    const struct CMUnitTest on_rseq[] = {COMMON_TESTS(use_rseq)};
    const struct CMUnitTest on_thread_area[] = {
        COMMON_TESTS(use_thread_area),
        cmocka_unit_test_setup_teardown(test_percpu_unregistered_thread_goes_slow, use_thread_area,
                                        drop_slab),
        cmocka_unit_test_setup_teardown(test_percpu_numbers_are_the_threads_slab, use_thread_area,
                                        drop_slab),
    };

    /* The second run of this program (caches per thread) takes the thread's own area. */
    if (test_per_cpu())
        return cmocka_run_group_tests_name("percpu on rseq", on_rseq, NULL, NULL);
    return cmocka_run_group_tests_name("percpu on the thread's area", on_thread_area, NULL, NULL);
}
