/* SPDX-License-Identifier: Apache-2.0 */
/* Places: those of this machine, compared with libc's; and L3 caches of made-up machines, from
 * the kernel's files. The table of caches keeps what it has read, so each machine runs in a
 * process of its own. */
#include "sampling/record/place.h"

#include "alloc/os/percpu.h"
#include "alloc/os/rseq.h"
#include "test/support/child.h"
#include "test/support/cmocka.h"
#include "test/support/start.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>

#define SHOWN 16

static const struct machine {
    const char *online;
    const char *shared[SHOWN]; /* NULL: no such file */
    int l3[SHOWN];
} machines[] = {
    {"0-3\n", {"0-3\n", "0-3\n", "0-3\n", "0-3\n"}, {0, 0, 0, 0, -1}},
    {"0-3\n", {"0-1\n", "0-1\n", "2-3\n", "2-3\n"}, {0, 0, 2, 2, -1}},
    {"0-7\n", {"0-1,4-5\n", NULL, "2,3,6,7\n"}, {0, 0, 2, 2, 0, 0, 2, 2, -1}},
    {"0,2\n", {"0\n", "1\n", "2\n"}, {0, -1, 2, -1}},                   /* 1 is off-line */
    {"0-2\n", {"0\n", NULL, ""}, {0, -1, -1}},                          /* some are not told */
    {"0-1\n", {"x\n", "-\n"}, {-1, -1}},                                /* no lists */
    {"0-99999999999\n", {"0-99999999999\n"}, {0, 0, 0, 0, 0, 0, 0, 0}}, /* more than there can be */
    {NULL, {"0-3\n"}, {-1, -1}},
    {"3-1\n", {"0-3\n", "0-3\n"}, {-1, -1, -1, -1}},
};

static const struct machine *machine; /* NULL: this one */
static unsigned reads;

long __real_sa_sys_read_file(const char *path, char *buf, size_t cap);
long __wrap_sa_sys_read_file(const char *path, char *buf, size_t cap);

long __wrap_sa_sys_read_file(const char *path, char *buf, size_t cap)
{
    const char *text = NULL;
    unsigned cpu;

    if (!machine)
        return __real_sa_sys_read_file(path, buf, cap);
    reads++;
    if (strcmp(path, "/sys/devices/system/cpu/online") == 0)
        text = machine->online;
    else if (sscanf(path, "/sys/devices/system/cpu/cpu%u/cache/index3/", &cpu) == 1 && cpu < SHOWN)
        text = machine->shared[cpu];
    if (!text)
        return -ENOENT;
    strcpy(buf, text);
    return (long)strlen(text);
}

static void learn(void *arg)
{
    machine = arg;
    sa_place_learn_caches();
    for (int cpu = 0; cpu < SHOWN && machine->l3[cpu]; cpu++)
        if (cpu == 0 || machine->l3[cpu] >= 0 || machine->shared[cpu])
            CHILD_CHECK(sa_place_l3(cpu) == machine->l3[cpu]);
    CHILD_CHECK(sa_place_l3(-1) == -1 && sa_place_l3(SA_SLABS) == -1);
}

static void test_place_learns_which_cpus_share_a_cache(void **state)
{
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(machines); i++)
        test_child_passes(learn, (void *)&machines[i]);
}

/* One file is read for each cache, not for each CPU, and none twice. */
static void learn_twice(void *arg)
{
    machine = arg;
    sa_place_learn_caches();
    CHILD_CHECK(reads == 3);
    sa_place_learn_caches();
    CHILD_CHECK(reads == 4);
}

static void test_place_reads_what_is_new(void **state)
{
    (void)state;
    test_child_passes(learn_twice, (void *)&machines[1]);
}

/* Checks places on each CPU that the test may use. */
static void test_place_is_where_the_thread_runs(void **state)
{
    cpu_set_t allowed, one;
    unsigned cpu, node;

    (void)state;
    sa_place_learn_caches();
    assert_int_equal(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
    for (int i = 0; i < CPU_SETSIZE; i++) {
        struct sa_place place;

        CPU_ZERO(&one);
        CPU_SET(i, &one);
        if (!CPU_ISSET(i, &allowed) || sched_setaffinity(0, sizeof(one), &one) != 0)
            continue;
        sa_place_here(&place);
        assert_int_equal(getcpu(&cpu, &node), 0);
        assert_true(place.cpu == i && (int)cpu == i && place.node == (int)node);
        /* A number below that of CPUs. */
        if (sa_rseq.per_cpu && getauxval(27) >= 28)
            assert_in_range(place.vcpu, 0, sa_rseq.cpus - 1);
        else
            assert_int_equal(place.vcpu, -1);
    }
    assert_int_equal(sched_setaffinity(0, sizeof(allowed), &allowed), 0);
}

static void test_place_compares_what_is_known(void **state)
{
    (void)state;
    assert_int_equal(sa_same(3, 3), SA_SAME_YES);
    assert_int_equal(sa_same(0, 3), SA_SAME_NO);
    assert_int_equal(sa_same(-1, 3), SA_SAME_UNKNOWN);
    assert_int_equal(sa_same(3, -1), SA_SAME_UNKNOWN);
    assert_int_equal(sa_same(-1, -1), SA_SAME_UNKNOWN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_place_learns_which_cpus_share_a_cache),
        cmocka_unit_test(test_place_reads_what_is_new),
        cmocka_unit_test(test_place_is_where_the_thread_runs),
        cmocka_unit_test(test_place_compares_what_is_known),
    };

    test_start_layers();
    return cmocka_run_group_tests_name("place", tests, NULL, NULL);
}
