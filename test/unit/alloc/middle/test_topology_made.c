/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Machines that are made up: what the kernel's files say of caches, and a hwloc that knows a few of
 * them or fails at any point. Which level is chosen, which CPU belongs where, and a refusal that
 * leaves nothing behind.
 */
#include "alloc/middle/topology.h"

#include "alloc/middle/transfer_cache.h"
#include "test/support/cmocka.h"

#include <dlfcn.h>
#include <errno.h>
#include <hwloc.h>
#include <string.h>

/* --- the kernel's files
 * ------------------------------------------------------------------------- */

static const char *online, *level3, *level2; /* NULL: there is no such file */

long __wrap_sa_sys_read_file(const char *path, char *buf, size_t cap);

long __wrap_sa_sys_read_file(const char *path, char *buf, size_t cap)
{
    const char *text = strstr(path, "/online") ? online : strstr(path, "index3") ? level3 : level2;

    if (!text)
        return -ENOENT;
    assert_true(strlen(text) < cap);
    strcpy(buf, text);
    return (long)strlen(text);
}

static void test_topology_may_matter_where_caches_are_shared_by_some(void **state)
{
    static const struct {
        const char *online, *level3, *level2;
        bool matters;
    } machines[] = {
        {"0-7\n", "0-7\n", NULL, false},    {"0-7\n", "0-3\n", NULL, true},
        {"0-7\n", NULL, "0-1\n", true},     {"0-1\n", NULL, "0-1\n", false},
        {"0-7\n", NULL, NULL, false},       {NULL, "0-3\n", "0-1\n", false},
        {"0-7\n", "0-7\n", "0-1\n", false}, /* the outermost decides */
    };

    (void)state;
    for (size_t i = 0; i < TEST_COUNT(machines); i++) {
        online = machines[i].online;
        level3 = machines[i].level3;
        level2 = machines[i].level2;
        assert_int_equal(sa_topology_may_matter(), machines[i].matters);
    }
}

/* --- hwloc --- */

#define CPUS    16
#define DOMAINS 300

static struct {
    bool absent;         /* there is no library */
    bool is_static;      /* there is no dlopen */
    const char *missing; /* a function that it lacks */
    bool init_fails, load_fails;
    hwloc_obj_type_t level; /* the only level of caches */
    unsigned domains;       /* CPUs belong to them in turn */
    int opened, loaded;     /* and not closed, not destroyed */
} made;

static int made_init(hwloc_topology_t *ret)
{
    if (made.init_fails)
        return -1;
    *ret = (hwloc_topology_t)&made;
    made.loaded++;
    return 0;
}

static int made_load(hwloc_topology_t t)
{
    assert_ptr_equal(t, &made);
    return made.load_fails ? -1 : 0;
}

static void made_destroy(hwloc_topology_t t)
{
    assert_ptr_equal(t, &made);
    made.loaded--;
}

static int made_depth(hwloc_topology_t t, hwloc_obj_type_t type)
{
    assert_ptr_equal(t, &made);
    return made.domains && type == made.level ? 5 : HWLOC_TYPE_DEPTH_UNKNOWN;
}

static unsigned made_count(hwloc_topology_t t, int depth)
{
    assert_ptr_equal(t, &made);
    assert_int_equal(depth, 5);
    return made.domains;
}

static hwloc_obj_t made_object(hwloc_topology_t t, int depth, unsigned index)
{
    static struct hwloc_obj objects[DOMAINS];

    assert_ptr_equal(t, &made);
    assert_int_equal(depth, 5);
    objects[index].cpuset = (hwloc_cpuset_t)(uintptr_t)(index + 1);
    return &objects[index];
}

static int made_next(hwloc_const_bitmap_t set, int cpu)
{
    int next = cpu < 0 ? (int)(uintptr_t)set - 1 : cpu + (int)made.domains;

    return next < CPUS ? next : -1;
}

void *__wrap_sa_loader_dlsym(void *library, const char *name);
int __wrap_dlclose(void *library);

static void *made_dlopen(const char *name, int flags)
{
    assert_string_equal(name, "libhwloc.so.15");
    assert_true(flags & RTLD_NOW);
    if (made.absent)
        return NULL;
    made.opened++;
    return &made;
}

void *__wrap_sa_loader_dlsym(void *library, const char *name)
{
    static const struct {
        const char *name;
        void *function;
    } all[] = {
        {"hwloc_topology_init", (void *)made_init},
        {"hwloc_topology_load", (void *)made_load},
        {"hwloc_topology_destroy", (void *)made_destroy},
        {"hwloc_get_type_depth", (void *)made_depth},
        {"hwloc_get_nbobjs_by_depth", (void *)made_count},
        {"hwloc_get_obj_by_depth", (void *)made_object},
        {"hwloc_bitmap_next", (void *)made_next},
    };

    if (library == RTLD_DEFAULT) {
        assert_string_equal(name, "dlopen");
        return made.is_static ? NULL : (void *)made_dlopen;
    }
    assert_ptr_equal(library, &made);
    for (size_t i = 0; i < TEST_COUNT(all); i++)
        if (strcmp(name, all[i].name) == 0)
            return made.missing && strcmp(made.missing, name) == 0 ? NULL : all[i].function;
    fail_msg("asks for %s", name);
    return NULL;
}

int __wrap_dlclose(void *library)
{
    assert_ptr_equal(library, &made);
    made.opened--;
    return 0;
}

static unsigned applied;
static uint8_t applied_of[CPUS];

static void apply(const uint8_t *domain_of, unsigned cpus, unsigned domains)
{
    assert_true(cpus >= CPUS);
    applied = domains;
    memcpy(applied_of, domain_of, CPUS);
}

/* The answer, after which nothing of the library is left. */
static int discover(void)
{
    int domains = sa_topology_discover(apply);

    assert_int_equal(made.opened, 0);
    assert_int_equal(made.loaded, 0);
    return domains;
}

static void test_topology_takes_the_outermost_caches(void **state)
{
    static const hwloc_obj_type_t levels[] = {HWLOC_OBJ_L2CACHE, HWLOC_OBJ_L3CACHE,
                                              HWLOC_OBJ_L4CACHE, HWLOC_OBJ_L5CACHE};

    (void)state;
    for (size_t i = 0; i < TEST_COUNT(levels); i++) {
        memset(&made, 0, sizeof(made));
        made.level = levels[i];
        made.domains = 2 + (unsigned)i;
        applied = 0;
        assert_int_equal(discover(), sa_transfer_domains());
        assert_int_equal(applied, made.domains);
        for (unsigned cpu = 0; cpu < CPUS; cpu++)
            assert_int_equal(applied_of[cpu], cpu % made.domains);
    }
}

static void test_topology_does_not_split_what_is_one_or_too_many(void **state)
{
    static const unsigned counts[] = {0, 1, 256, DOMAINS};

    (void)state;
    for (size_t i = 0; i < TEST_COUNT(counts); i++) {
        memset(&made, 0, sizeof(made));
        made.level = HWLOC_OBJ_L3CACHE;
        made.domains = counts[i];
        applied = 0;
        assert_int_equal(discover(), 1);
        assert_int_equal(applied, 0);
    }
    memset(&made, 0, sizeof(made));
    made.level = HWLOC_OBJ_L1CACHE; /* of no use */
    made.domains = 4;
    assert_int_equal(discover(), 1);
    assert_int_equal(applied, 0);
}

static void test_topology_refuses_cleanly(void **state)
{
    (void)state;
    memset(&made, 0, sizeof(made));
    made.level = HWLOC_OBJ_L3CACHE;
    made.domains = 4;
    applied = 0;
    made.absent = true;
    assert_int_equal(discover(), -ENOENT);
    made.absent = false;
    made.is_static = true;
    assert_int_equal(discover(), -ENOENT);
    made.is_static = false;
    made.missing = "hwloc_bitmap_next";
    assert_int_equal(discover(), -ENOENT);
    made.missing = NULL;
    made.init_fails = true;
    assert_int_equal(discover(), -ENOMEM);
    made.init_fails = false;
    made.load_fails = true;
    assert_int_equal(discover(), -ENOMEM);
    assert_int_equal(applied, 0);
    made.load_fails = false;
    assert_int_equal(discover(), sa_transfer_domains());
    assert_int_equal(applied, 4);
}

static int nested;

static void apply_and_ask_again(const uint8_t *domain_of, unsigned cpus, unsigned domains)
{
    apply(domain_of, cpus, domains);
    nested = sa_topology_discover(apply);
}

/* Whoever asks meanwhile gets what is known so far; and a child of fork, where nobody asks any
 * more, can. */
static void test_topology_asks_once_at_a_time(void **state)
{
    (void)state;
    memset(&made, 0, sizeof(made));
    made.level = HWLOC_OBJ_L3CACHE;
    made.domains = 3;
    nested = -1;
    assert_int_equal(sa_topology_discover(apply_and_ask_again), sa_transfer_domains());
    assert_int_equal(nested, sa_transfer_domains());
    sa_topology_after_fork();
    assert_int_equal(discover(), sa_transfer_domains());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_topology_may_matter_where_caches_are_shared_by_some),
        cmocka_unit_test(test_topology_takes_the_outermost_caches),
        cmocka_unit_test(test_topology_does_not_split_what_is_one_or_too_many),
        cmocka_unit_test(test_topology_refuses_cleanly),
        cmocka_unit_test(test_topology_asks_once_at_a_time),
    };

    return cmocka_run_group_tests_name("topology_made", tests, NULL, NULL);
}
