/* SPDX-License-Identifier: Apache-2.0 */
/* What threads do with blocks while another thread looks on. */
#ifndef TEST_SUPPORT_TRAFFIC_H
#define TEST_SUPPORT_TRAFFIC_H

#include "alloc/front/slow_path.h"
#include "alloc/maintain/maintenance.h"
#include "test/support/cmocka.h"
#include "test/support/random.h"
#include "test/support/threads.h"

/* Allocates and frees blocks of all sizes until *done (atomic); one in release_every times all free
 * memory is given back. */
static inline void traffic_until(const uint64_t *done, uint64_t seed, size_t release_every)
{
    struct test_random r = {seed};
    void *held[200] = {NULL};

    while (!__atomic_load_n(done, __ATOMIC_RELAXED)) {
        size_t i = test_random_below(&r, TEST_COUNT(held));

        if (held[i])
            sa_front_free(held[i]);
        held[i] = held[i] ? NULL : sa_front_alloc(test_random_size(&r, 16), 1, false);
        if (test_random_below(&r, release_every) == 0)
            sa_maintenance_release(PTRDIFF_MAX);
    }
    for (size_t i = 0; i < TEST_COUNT(held); i++)
        if (held[i])
            sa_front_free(held[i]);
}

/* Block i of those that one thread allocates and another one frees; passed is where they meet,
 * atomic. */
static inline size_t traffic_size(size_t i, size_t sizes)
{
    return 16 + i % sizes;
}

static inline void traffic_give(void *volatile *passed, size_t i, size_t sizes)
{
    size_t *p = sa_front_alloc(traffic_size(i, sizes), 1, false);

    THREAD_CHECK(p != NULL);
    *p = i;
    __atomic_store_n(&passed[i], p, __ATOMIC_RELEASE);
}

static inline void traffic_take(void *volatile *passed, size_t i, size_t sizes)
{
    size_t *p;

    while (!(p = __atomic_load_n(&passed[i], __ATOMIC_ACQUIRE)))
        ;
    THREAD_CHECK(*p == i);
    sa_front_free_sized(p, traffic_size(i, sizes), 0);
}

#endif
