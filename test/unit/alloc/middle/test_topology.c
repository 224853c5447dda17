/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asking hwloc, on whatever machine this is: an answer that fits the transfer cache, or a clean
 * refusal where hwloc is not installed. What the split does is tested with a made-up topology in
 * test_transfer.c.
 */
#include "alloc/middle/topology.h"

#include "alloc/middle/transfer_cache.h"
#include "test/support/cmocka.h"
#include "test/support/start.h"
#include "test/support/threads.h"

#include <errno.h>

static void apply(const uint8_t *domain_of, unsigned cpus, unsigned domains)
{
    THREAD_CHECK(domains > 1);
    for (unsigned cpu = 0; cpu < cpus; cpu++)
        THREAD_CHECK(domain_of[cpu] < domains);
    sa_transfer_split(domain_of, cpus, domains);
}

static void test_topology_discovers(void **state)
{
    bool may_matter = sa_topology_may_matter();
    int domains = sa_topology_discover(apply);

    (void)state;
    if (domains < 0) {
        assert_int_equal(domains, -ENOENT);
        assert_int_equal(sa_transfer_domains(), 1);
        TEST_SKIP("hwloc is not installed");
    }
    assert_int_equal(domains, sa_transfer_domains());
    assert_in_range(domains, 1, 64);
    if (domains > 1) /* the cheap question must not have said that it is not worth asking */
        assert_true(may_matter);
    assert_int_equal(sa_topology_discover(apply), domains);
    test_threads_check();
}

static void discover(int index, void *arg)
{
    (void)index;
    (void)arg;
    THREAD_CHECK(sa_topology_discover(apply) == (int)sa_transfer_domains() ||
                 sa_transfer_domains() == 1);
}

static void test_topology_is_asked_once_at_a_time(void **state)
{
    (void)state;
    test_threads_run(4, discover, NULL);
    test_threads_check();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_topology_discovers),
        cmocka_unit_test(test_topology_is_asked_once_at_a_time),
    };

    test_start_layers();
    return cmocka_run_group_tests_name("topology", tests, NULL, NULL);
}
