/* SPDX-License-Identifier: Apache-2.0 */
/* Where the slots of a cache lie: together while they are few, and in a place with room for the
 * most afterwards. */
#include "alloc/cpu_cache/cpu_cache.h"

#include "alloc/base/bits.h"
#include "alloc/base/size_class.h"
#include "alloc/os/vm.h"
#include "test/support/cmocka.h"
#include "test/support/start.h"

#define LIMIT (1024ul * 1024)

static void *cache_alloc(unsigned cls)
{
    struct sa_sampling_decision decision = {.sampled = false};

    return sa_cpu_cache_alloc(cls, &decision);
}

/* One object of each class, which a batch comes with, touches 32 KiB of half a megabyte. */
static void test_cpu_cache_slots_lie_together(void **state)
{
    struct sa_slab *slab;

    (void)state;
    for (unsigned cls = 1; cls < sa_size_classes.count; cls++)
        sa_cpu_cache_free(cls, cache_alloc(cls));
    slab = sa_hot.slabs[sa_percpu_cpu()];
    for (unsigned cls = 1; cls < sa_size_classes.count; cls++)
        assert_ptr_equal(slab->header[cls].slots,
                         (void **)slab + sa_size_classes.of[cls].near_begin);
    assert_in_range(sa_vm_resident(slab, sa_size_classes.slab_words * sizeof(void *)), 1,
                    sa_max(32768, 2 * sa_vm.page_bytes));
}

/* A class that grows moves, and nothing that it holds is lost or there twice. */
static void test_cpu_cache_slots_move(void **state)
{
    struct sa_slab *slab = sa_hot.slabs[sa_percpu_cpu()];
    static char *objs[4096];
    unsigned moved = 0;

    (void)state;
    for (unsigned cls = 1; cls < sa_size_classes.count; cls++) {
        const struct sa_class *k = &sa_size_classes.of[cls];
        size_t n = sa_min((size_t)k->max, LIMIT / 4 / k->size);

        for (int round = 0; round < 8; round++) {
            for (size_t i = 0; i < n; i++) {
                objs[i] = cache_alloc(cls);
                assert_non_null(objs[i]);
                *(size_t *)objs[i] = i;
            }
            for (size_t i = 0; i < n; i++) {
                assert_int_equal(*(size_t *)objs[i], i);
                sa_cpu_cache_free(cls, objs[i]);
            }
        }
        assert_true(slab->header[cls].slots >=
                    (void **)slab + sa_class_slots(k, sa_state_cap(slab->header[cls].state)));
        assert_null(slab->header[cls].slots[-1]);
        moved += slab->header[cls].slots != (void **)slab + k->near_begin;
    }
    assert_true(moved > 32); /* the small ones at least */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cpu_cache_slots_lie_together),
        cmocka_unit_test(test_cpu_cache_slots_move),
    };

    test_start(LIMIT);
    test_pin();
    return cmocka_run_group_tests_name("cpu_cache_slots", tests, NULL, NULL);
}
