/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Options by name at run time. Proves that each that can change does, that the value in effect is
 * what the function of its own returns, and that mistakes change nothing and say which they are.
 */
#include "include/salloc/salloc.h"
#include "test/outside/check.h"

#include <errno.h>

static int (*set)(const char *, const char *);
static int (*get)(const char *, char *, size_t);

/* The value in effect. */
static const char *value(const char *name)
{
    static char text[64];

    REQUIRE(get(name, text, sizeof(text)) == 0);
    return text;
}

/* The errno of a change that fails; 0: it does not. */
static int fails(const char *name, const char *to)
{
    errno = 0;
    return set(name, to) == 0 ? 0 : errno;
}

int main(void)
{
    static const char *const changes[][3] = {
        {"cpu_cache", "64k", "64k"},
        {"sample_interval", "512k", "512k"},
        {"sample_interval", "0", "0"},
        {"skip_subrelease_interval", "60s", "0"}, /* without effect */
        {"skip_subrelease_short_interval", "61", "0"},
        {"skip_subrelease_long_interval", "300", "0"},
        {"profile_threads", "true", "on"},
        {"soft_limit", "1g", "1g"},
        {"soft_limit", "0", "0"},
        {"hard_limit", "2048m", "2g"},
        {"hard_limit", "0", "0"},
        {"release_rate", "1m", "1m"},
        {"maintenance_thread", "on", "on"},
        {"maintenance_thread", "auto", "auto"},
        {"maintenance_thread", "off", "off"},
    };
    size_t (*limit)(enum salloc_memory_limit) =
        (size_t(*)(enum salloc_memory_limit))dlsym(RTLD_DEFAULT, "salloc_get_memory_limit");
    char small[3];

    check_begin();
    set = (int (*)(const char *, const char *))dlsym(RTLD_DEFAULT, "salloc_set_option");
    get = (int (*)(const char *, char *, size_t))dlsym(RTLD_DEFAULT, "salloc_get_option");
    REQUIRE(set && get && limit);
    for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
        int error = fails(changes[i][0], changes[i][1]);

        CHECK_SAYS(error == 0, "%s: %s", changes[i][0], strerror(error));
        CHECK_SAYS(strcmp(value(changes[i][0]), changes[i][2]) == 0, "%s is %s", changes[i][0],
                   value(changes[i][0]));
    }
    CHECK(fails("soft_limit", "3m") == 0 && limit(SALLOC_SOFT_LIMIT) == 3 << 20);
    for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++)
        CHECK(fails(changes[i][0], "nonsense") == EINVAL && fails(changes[i][0], "") == EINVAL);
    CHECK(fails("soft_limit", "1g,hard_limit:1g") == EINVAL);
    CHECK(fails("cpu_cache", "2g") == EINVAL);
    CHECK(strcmp(value("soft_limit"), "3m") == 0 && strcmp(value("cpu_cache"), "64k") == 0);
    CHECK(fails("per_cpu", "off") == EPERM && fails("stats", "/tmp/x") == EPERM);
    CHECK(fails("per_cpu", "nonsense") == EPERM);
    CHECK(fails("softlimit", "1g") == ENOENT && fails("", "1g") == ENOENT);
    CHECK(fails(NULL, "1") == EINVAL && fails("soft_limit", NULL) == EINVAL);
    CHECK(get("softlimit", small, sizeof(small)) == -1 && errno == ENOENT);
    CHECK(get("map_names", small, sizeof(small)) == -1 && errno == ERANGE);
    CHECK(get("map_names", NULL, 10) == -1 && errno == EINVAL);
    CHECK(strcmp(value("map_names"), "off") == 0 && strcmp(value("stats"), "none") == 0);
    return check_end();
}
