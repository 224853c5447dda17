/* SPDX-License-Identifier: Apache-2.0 */
/*
 * salloc_set_option and salloc_get_option: the options of SALLOC_CONF by name, at run time. The
 * contracts are in include/salloc/salloc.h. An option that has a function of its own is set by that
 * function, which serialises its callers. No variables.
 */
#include "alloc/api/control/background.h"
#include "alloc/api/init.h"
#include "alloc/api/options/options.h"
#include "alloc/api/options/options_text.h"
#include "alloc/base/attrs.h"
#include "alloc/base/fmt.h"
#include "include/salloc/salloc.h"

#include <errno.h>
#include <string.h>

/* The longest value of an option that can change. */
#define VALUE_MAX 63

/* Stores the number of a key. False, with errno: there is no such key, or no place for a value. */
static bool option_find(const char *name, const char *value, size_t *ret_number)
{
    size_t i = 0;

    if (!name || !value) {
        errno = EINVAL;
        return false;
    }
    while (i < SA_OPTIONS && strcmp(sa_option_infos[i].key, name) != 0)
        i++;
    *ret_number = i;
    if (i == SA_OPTIONS)
        errno = ENOENT;
    return i < SA_OPTIONS;
}

/* Whether an option can change at run time: option_apply sets it. */
static bool option_changes(size_t number)
{
    static const unsigned char changing[] = {
        SA_OPTION_KEY_cpu_cache,
        SA_OPTION_KEY_sample_interval,
        SA_OPTION_KEY_skip_subrelease_interval,
        SA_OPTION_KEY_skip_subrelease_short_interval,
        SA_OPTION_KEY_skip_subrelease_long_interval,
        SA_OPTION_KEY_profile_threads,
        SA_OPTION_KEY_soft_limit,
        SA_OPTION_KEY_hard_limit,
        SA_OPTION_KEY_release_rate,
        SA_OPTION_KEY_maintenance_thread,
    };

    return memchr(changing, (int)number, sizeof(changing)) != NULL;
}

/* Sets an option to the value that `o` has for it. Returns 0, or -1 with errno: EPERM: the option
 * cannot change. */
static int option_apply(size_t number, const struct sa_options *o)
{
    switch (number) {
    case SA_OPTION_KEY_cpu_cache:
        return salloc_set_numeric_property("tcmalloc.max_per_cpu_cache_size", o->cpu_cache);
    case SA_OPTION_KEY_skip_subrelease_interval:
    case SA_OPTION_KEY_skip_subrelease_short_interval:
    case SA_OPTION_KEY_skip_subrelease_long_interval:
        return 0; /* without effect */
    case SA_OPTION_KEY_sample_interval:
        return salloc_set_sampling_interval((int64_t)o->sample_interval);
    case SA_OPTION_KEY_profile_threads:
        salloc_set_profile_threads(o->profile_threads);
        return 0;
    case SA_OPTION_KEY_soft_limit:
        return salloc_set_memory_limit(SALLOC_SOFT_LIMIT,
                                       o->soft_limit ? o->soft_limit : SALLOC_NO_LIMIT);
    case SA_OPTION_KEY_hard_limit:
        return salloc_set_memory_limit(SALLOC_HARD_LIMIT,
                                       o->hard_limit ? o->hard_limit : SALLOC_NO_LIMIT);
    case SA_OPTION_KEY_release_rate:
        return salloc_set_release_rate(o->release_rate);
    case SA_OPTION_KEY_maintenance_thread:
        return sa_background_set_choice(o->maintenance_thread);
    default:
        errno = EPERM;
        return -1;
    }
}

SA_EXPORT int salloc_set_option(const char *name, const char *value)
{
    char text[sizeof(sa_option_infos[0].key) + VALUE_MAX + 2];
    char complaints[SA_OPTION_COMPLAINTS_BYTES];
    struct sa_options wanted;
    struct sa_fmt f;
    size_t number;
    int saved = errno;

    if (!option_find(name, value, &number))
        return -1;
    sa_init();
    sa_options_default(&wanted);
    sa_fmt_init(&f, text, sizeof(text));
    sa_fmt_add(&f, "%s:%s", name, value);
    complaints[0] = 'x';
    if (!f.truncated && !strchr(value, ','))
        sa_options_parse(&wanted, text, complaints, sizeof(complaints));
    /* Of an option that cannot change, the caller learns that first, whatever the value is. */
    if (complaints[0] && option_changes(number)) {
        errno = EINVAL;
        return -1;
    }
    if (option_apply(number, &wanted) != 0)
        return -1;
    errno = saved;
    return 0;
}

SA_EXPORT int salloc_get_option(const char *name, char *value, size_t size)
{
    struct sa_fmt f;
    size_t number;

    if (!option_find(name, size ? value : NULL, &number))
        return -1;
    sa_init();
    sa_fmt_init(&f, value, size);
    sa_options_report_one(&f, &sa_option_infos[number]);
    if (f.truncated) {
        errno = ERANGE;
        return -1;
    }
    return 0;
}
