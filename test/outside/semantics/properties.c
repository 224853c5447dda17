/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numeric properties: every one that can be set is set and says so, limits and errors are what the
 * header says. Intervals without effect are accepted and stay 0.
 */
#include "test/outside/check.h"

#include <errno.h>

#define PREFIX "tcmalloc.skip_subrelease_"

static int (*get)(const char *, size_t *);
static int (*set)(const char *, size_t);

static size_t value_of(const char *name)
{
    size_t value = 12345;

    errno = 4321;
    CHECK_SAYS(get(name, &value) == 0 && errno == 4321, "%s", name);
    return value;
}

static void test_settable(const char *name, size_t max, bool effect)
{
    const size_t values[] = {0, 1, 60, max};
    size_t before = value_of(name);

    for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++) {
        errno = 4321;
        CHECK(set(name, values[i]) == 0 && errno == 4321);
        CHECK_SAYS(value_of(name) == (effect ? values[i] : 0), "%s: %zu", name, values[i]);
    }
    errno = 0;
    CHECK(set(name, max + 1) == -1 && errno == EINVAL);
    errno = 0;
    CHECK(set(name, SIZE_MAX) == -1 && errno == EINVAL);
    CHECK(value_of(name) == (effect ? max : 0));
    CHECK(set(name, before) == 0);
}

static void test_errors(void)
{
    size_t value = 12345;

    CHECK(get("tcmalloc.none", &value) == -1 && errno == ENOENT && value == 12345);
    CHECK(get(PREFIX "interval_", &value) == -1 && errno == ENOENT);
    CHECK(get(NULL, &value) == -1 && errno == EINVAL);
    CHECK(get("generic.heap_size", NULL) == -1 && errno == EINVAL);
    CHECK(set(NULL, 1) == -1 && errno == EINVAL);
    CHECK(set("tcmalloc.none", 1) == -1 && errno == ENOENT);
    CHECK(set("generic.heap_size", 1) == -1 && errno == EPERM);
    CHECK(set("salloc.samples_taken", 1) == -1 && errno == EPERM);
}

/* Names of tcmalloc's that the figures of salloc's own tell, too. */
static void test_names(void)
{
    size_t released;

    CHECK(value_of("tcmalloc.metadata_bytes") == value_of("salloc.metadata_bytes") +
                                                     value_of("salloc.metadata_unallocated_bytes") +
                                                     value_of("salloc.metadata_unavailable_bytes"));
    CHECK(value_of("tcmalloc.transfer_cache_free") +
              value_of("tcmalloc.sharded_transfer_cache_free") ==
          value_of("salloc.transfer_free_bytes"));
    CHECK(value_of("tcmalloc.max_total_thread_cache_bytes") == 32 << 20);
    CHECK(value_of("tcmalloc.page_algorithm") == 1);
    CHECK(value_of("tcmalloc.experiment.TCMALLOC_TEMERAIRE") == 1);
    CHECK(value_of("tcmalloc.experiment.TCMALLOC_TEMERAIRE_WITH_SUBRELEASE_V3") == 1);
    released = value_of("tcmalloc.num_released_release_memory_to_system_bytes");
    free(malloc(8 << 20));
    CHECK(value_of("salloc.address_requested_hugepages") >= 4);
    malloc_trim(0);
    CHECK(value_of("tcmalloc.num_released_release_memory_to_system_bytes") >= released + (8 << 20));
}

int main(void)
{
    static const char *const intervals[] = {PREFIX "interval", PREFIX "short_interval",
                                            PREFIX "long_interval"};

    check_begin();
    get = (int (*)(const char *, size_t *))dlsym(RTLD_DEFAULT, "salloc_get_numeric_property");
    set = (int (*)(const char *, size_t))dlsym(RTLD_DEFAULT, "salloc_set_numeric_property");
    REQUIRE(get && set);
    for (int i = 0; i < 3; i++) {
        CHECK(value_of(intervals[i]) == 0);
        test_settable(intervals[i], 300, false);
    }
    CHECK(value_of("tcmalloc.max_per_cpu_cache_size") == 6 << 20);
    test_settable("tcmalloc.max_per_cpu_cache_size", 1 << 30, true);
    test_names();
    test_errors();
    return check_end();
}
