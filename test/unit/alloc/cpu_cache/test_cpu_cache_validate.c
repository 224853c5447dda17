/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The checks of the per-CPU caches in debug builds: capacities and what is available add up to the
 * limit after any slow path, and the program ends when they do not, or a header is out of bounds.
 */
#include "alloc/cpu_cache/cpu_cache_internal.h"

#include "alloc/base/single_threaded.h"
#include "alloc/base/size_class.h"
#include "alloc/os/rseq.h"
#include "test/support/child.h"
#include "test/support/cmocka.h"
#include "test/support/random.h"
#include "test/support/start.h"

#define LIMIT (256ul * 1024)
#define CLS   8
#define LIVE  600

static void *cache_alloc(unsigned cls)
{
    struct sa_sampling_decision decision = {.sampled = false};

    return sa_cpu_cache_alloc(cls, &decision);
}

static struct cpu_cache *own(void)
{
    return cpu_cache_get(sa_percpu_cpu());
}

/* Many classes compete for a small limit; capacity is taken, moved between classes and given back.
 */
static void compete(void *unused)
{
    struct test_random r = {0xcac4e};
    static void *live[LIVE];
    static unsigned cls_of[LIVE];

    (void)unused;
    for (int step = 0; step < 200000; step++) {
        size_t i = test_random_below(&r, LIVE);

        if (live[i]) {
            sa_cpu_cache_free(cls_of[i], live[i]);
            live[i] = NULL;
        } else {
            cls_of[i] = 1 + (unsigned)test_random_below(&r, sa_size_classes.count - 1);
            live[i] = cache_alloc(cls_of[i]);
        }
        if (step % 100 == 0)
            sa_cpu_cache_validate();
        if (step % 20000 == 0)
            sa_cpu_cache_set_limit(step % 40000 ? LIMIT : LIMIT / 2);
    }
    sa_cpu_cache_drain(-1);
    sa_cpu_cache_validate();
}

/* The class has a capacity on this CPU, and one object. */
static struct sa_header *prepare(void)
{
    void *object = cache_alloc(CLS);

    CHILD_CHECK(object != NULL);
    sa_cpu_cache_free(CLS, object);
    sa_cpu_cache_validate();
    return &own()->slab->header[CLS];
}

static void too_much_available(void *unused)
{
    (void)unused;
    prepare();
    own()->available_bytes += 8;
    sa_cpu_cache_validate();
}

/* Lost capacity is found in a process of one thread. */
static void too_little_available(void *unused)
{
    (void)unused;
    prepare();
    own()->available_bytes -= 8;
    sa_cpu_cache_validate();
}

static void too_high_capacity(void *unused)
{
    struct sa_header *h = prepare();

    (void)unused;
    h->state = sa_state_with(h->state, sa_state_avail(h->state), sa_state_cap(h->state) + 1);
    sa_cpu_cache_validate();
}

static void more_than_capacity(void *unused)
{
    struct sa_header *h = prepare();

    (void)unused;
    h->state = sa_state_with(h->state, sa_state_cap(h->state) + 1, sa_state_cap(h->state));
    sa_cpu_cache_validate();
}

static void outside_the_slab(void *unused)
{
    struct sa_header *h = prepare();

    (void)unused;
    h->slots = (void **)own()->slab + sa_size_classes.slab_words;
    sa_cpu_cache_validate();
}

static void test_cpu_cache_validate_passes(void **state)
{
    (void)state;
    test_child_passes(compete, NULL);
}

static void test_cpu_cache_validate_finds_damage(void **state)
{
    (void)state;
    if (!sa_rseq.per_cpu)
        TEST_SKIP("caches belong to threads, and are not checked");
    test_child_aborts(too_much_available, NULL, "sum <=");
    if (sa_single_threaded()) /* in some builds no process is known to have one thread */
        test_child_aborts(too_little_available, NULL, "sum == after");
    test_child_aborts(too_high_capacity, NULL, "sum <=");
    test_child_aborts(more_than_capacity, NULL, "sa_state_avail(h) <= sa_state_cap(h)");
    test_child_aborts(outside_the_slab, NULL, "<= end");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cpu_cache_validate_passes),
        cmocka_unit_test(test_cpu_cache_validate_finds_damage),
    };

    test_start(LIMIT);
    test_pin();
    return cmocka_run_group_tests_name("cpu_cache_validate", tests, NULL, NULL);
}
