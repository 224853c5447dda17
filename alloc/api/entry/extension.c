/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of include/salloc/salloc.h about reports, properties, releasing and blocks, with
 * their contracts there. Those about limits are in limit_options.c, those about the maintenance
 * thread in background.c. A call that changes the allocator's state enters the fork gate.
 */
#include "include/salloc/salloc.h"

#include "alloc/api/init.h"
#include "alloc/api/options/options.h"
#include "alloc/base/fmt.h"
#include "alloc/cpu_cache/cpu_cache.h"
#include "alloc/fork/fork_gate.h"
#include "alloc/front/slow_path.h"
#include "alloc/maintain/maintenance.h"
#include "alloc/os/lock.h"
#include "alloc/page_heap/account/limits.h"
#include "alloc/page_heap/page_heap.h"
#include "stats/properties.h"
#include "stats/report.h"
#include "stats/stats_snapshot.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* MiB by which the allocation of a report may exceed the hard limit, without the report. */
#define REPORT_PAST_LIMIT_MIB 6

static struct sa_lock control_lock; /* CONTROL: one thread at a time sets a property */

SA_ONCE SA_EXPORT const char *salloc_version(void)
{
    return SALLOC_VERSION;
}

/*
 * Returns a report in a block of the program, or NULL. The block may exceed the hard limit by
 * REPORT_PAST_LIMIT_MIB and the size of a report. That covers the first of two hugepages that the
 * allocation may take into use, the report itself, and earlier reports that the program still
 * holds.
 */
SA_RARE static char *get_stats(enum sa_report_kind kind)
{
    int saved = errno;
    size_t cap, past;
    char *text, *shorter;
    struct sa_fmt f;

    sa_init();
    cap = sa_report_size();
    past = REPORT_PAST_LIMIT_MIB + (cap >> 20);
    sa_limits_pass(past);
    text = malloc(cap);
    sa_limits_pass(0);
    if (!text)
        return NULL;
    sa_fmt_init(&f, text, cap);
    sa_report_format_as(kind, &f);
    sa_limits_pass(past);
    shorter = realloc(text, f.len + 1);
    sa_limits_pass(0);
    errno = saved;
    return shorter ? shorter : text;
}

SA_RARE SA_EXPORT char *salloc_get_stats(void)
{
    return get_stats(SA_REPORT_TEXT);
}

SA_RARE SA_EXPORT char *salloc_get_stats_json(void)
{
    return get_stats(SA_REPORT_JSON);
}

SA_RARE SA_EXPORT char *salloc_get_stats_openmetrics(void)
{
    return get_stats(SA_REPORT_OPENMETRICS);
}

SA_RARE SA_EXPORT char *salloc_get_stats_prometheus(void)
{
    return get_stats(SA_REPORT_PROMETHEUS);
}

SA_RARE SA_EXPORT int salloc_get_numeric_property(const char *name, size_t *value)
{
    int saved = errno;
    struct sa_snapshot *s;
    bool found;

    if (!name || !value) {
        errno = EINVAL;
        return -1;
    }
    sa_init();
    s = sa_snapshot_new();
    if (!s) {
        errno = ENOMEM;
        return -1;
    }
    found = sa_property_read(s, name, value);
    sa_snapshot_drop(s);
    errno = found ? saved : ENOENT;
    return found ? 0 : -1;
}

/* Returns the greatest value of a property that is set here, or 0 if there is none of that name.
 * *ret_unused: it has no effect. */
static size_t settable_max(const char *name, bool *ret_unused)
{
    static const char unused[][40] = {"tcmalloc.skip_subrelease_interval",
                                      "tcmalloc.skip_subrelease_short_interval",
                                      "tcmalloc.skip_subrelease_long_interval"};

    *ret_unused = false;
    for (size_t i = 0; i < sizeof(unused) / sizeof(unused[0]) && !*ret_unused; i++)
        *ret_unused = strcmp(name, unused[i]) == 0;
    if (*ret_unused)
        return SA_UNUSED_MAX_S;
    return strcmp(name, "tcmalloc.max_per_cpu_cache_size") == 0 ? SA_CPU_CACHE_MAX : 0;
}

SA_RARE SA_EXPORT int salloc_set_numeric_property(const char *name, size_t value)
{
    int saved = errno;
    size_t old, max;
    bool unused;

    if (!name) {
        errno = EINVAL;
        return -1;
    }
    if (strcmp(name, "tcmalloc.desired_usage_limit_bytes") == 0)
        return salloc_set_memory_limit(SALLOC_SOFT_LIMIT, value);
    if (strcmp(name, "tcmalloc.hard_usage_limit_bytes") == 0)
        return salloc_set_memory_limit(SALLOC_HARD_LIMIT, value);
    if (strcmp(name, "tcmalloc.background_release_rate") == 0)
        return salloc_set_release_rate(value);
    sa_init();
    max = settable_max(name, &unused);
    if (!max) {
        if (salloc_get_numeric_property(name, &old) == 0)
            errno = EPERM;
        return -1;
    }
    if (value > max) {
        errno = EINVAL;
        return -1;
    }
    if (!sa_fork_gate_enter()) {
        errno = EAGAIN;
        return -1;
    }
    sa_lock_acquire(&control_lock, SA_RANK_CONTROL);
    if (!unused)
        sa_cpu_cache_set_limit(value);
    sa_lock_release(&control_lock, SA_RANK_CONTROL);
    sa_fork_gate_leave();
    errno = saved;
    return 0;
}

SA_RARE SA_EXPORT size_t salloc_release_free_memory(size_t bytes)
{
    int saved = errno;
    size_t given = 0;

    sa_init();
    if (sa_fork_gate_enter()) {
        given = sa_maintenance_release_requested(bytes > PTRDIFF_MAX ? PTRDIFF_MAX : bytes);
        sa_fork_gate_leave();
    }
    errno = saved;
    return given;
}

SA_RARE SA_EXPORT size_t salloc_get_estimated_allocated_size(size_t size)
{
    sa_init();
    return sa_front_estimate(size);
}

SA_RARE SA_EXPORT size_t salloc_get_allocated_size(const void *p)
{
    sa_init();
    return p ? sa_front_size_if_ours(p) : 0;
}

SA_RARE SA_EXPORT enum salloc_ownership salloc_get_ownership(const void *p)
{
    return salloc_get_allocated_size(p) ? SALLOC_OWNED : SALLOC_NOT_OWNED;
}

SA_RARE SA_EXPORT int salloc_discover_topology(void)
{
    int saved = errno, domains;

    sa_init();
    domains = sa_maintenance_topology();
    errno = domains < 0 ? -domains : saved;
    return domains < 0 ? -1 : domains;
}
