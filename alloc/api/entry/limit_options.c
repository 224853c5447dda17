/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits on memory, as the program and the options set them. The contracts of the public functions
 * are in include/salloc/salloc.h. limits_lock serialises those that set a limit; sa_limits has the
 * limits.
 */
#include "alloc/api/entry/limit_options.h"

#include "alloc/api/init.h"
#include "alloc/api/options/options.h"
#include "alloc/base/bits.h"
#include "alloc/fork/deferred_calls.h"
#include "alloc/fork/fork_gate.h"
#include "alloc/maintain/maintenance.h"
#include "alloc/maintain/soft_limit.h"
#include "alloc/os/cgroup.h"
#include "alloc/os/lock.h"
#include "alloc/page_heap/account/limits.h"
#include "include/salloc/salloc.h"

#include <errno.h>

static struct sa_lock limits_lock; /* CONTROL: one thread at a time sets a limit */

/* Returns 0, or the errno that says why a limit cannot be `bytes`. */
static int limit_error(size_t bytes)
{
    if (bytes == 0)
        return EINVAL;
    return bytes > PTRDIFF_MAX && bytes != SALLOC_NO_LIMIT ? ERANGE : 0;
}

/* Releases the memory that exceeds a new limit, as far as possible. Called inside the fork gate. */
static void limit_take_effect(enum sa_limit_kind kind) SA_INSIDE_GATE
{
    size_t over = sa_limits_surplus(kind);

    if (kind == SA_LIMIT_SOFT)
        sa_soft_limit_enforce();
    else if (over)
        sa_limits_released(SA_LIMIT_HARD, sa_maintenance_release(over));
}

SA_RARE SA_EXPORT int salloc_set_memory_limit(enum salloc_memory_limit which, size_t bytes)
{
    enum sa_limit_kind kind = which == SALLOC_SOFT_LIMIT ? SA_LIMIT_SOFT : SA_LIMIT_HARD;
    int saved = errno, error = limit_error(bytes);

    if (which != SALLOC_SOFT_LIMIT && which != SALLOC_HARD_LIMIT)
        error = EINVAL;
    if (error) {
        errno = error;
        return -1;
    }
    sa_init();
    if (!sa_fork_gate_enter()) {
        errno = EAGAIN;
        return -1;
    }
    sa_lock_acquire(&limits_lock, SA_RANK_CONTROL);
    sa_limits_set(kind, bytes);
    sa_lock_release(&limits_lock, SA_RANK_CONTROL);
    limit_take_effect(kind);
    sa_fork_gate_leave();
    sa_deferred_call_run();
    errno = saved;
    return 0;
}

SA_RARE SA_EXPORT size_t salloc_get_memory_limit(enum salloc_memory_limit which)
{
    return sa_limits_own(which == SALLOC_SOFT_LIMIT ? SA_LIMIT_SOFT : SA_LIMIT_HARD);
}

SA_RARE SA_EXPORT int salloc_set_soft_limit_callback(void (*callback)(void *arg), void *arg)
{
    int saved = errno;

    sa_init();
    if (!sa_fork_gate_enter()) {
        errno = EAGAIN;
        return -1;
    }
    sa_soft_limit_set_callback(callback, arg);
    sa_fork_gate_leave();
    errno = saved;
    return 0;
}

/* Sets a limit by option; 0: none was given. */
static void set_option(enum sa_limit_kind kind, size_t bytes)
{
    if (bytes)
        sa_limits_set(kind, bytes);
}

/*
 * Sets both limits from the control group's: the hard limit is memory.max, the soft one `percent`
 * of memory.max or memory.high, whichever is lower. A limit that the group does not have is not
 * set.
 */
static void set_from_cgroup(unsigned percent)
{
    struct sa_cgroup_limits limits;
    uint64_t min;

    sa_cgroup_read_limits("", &limits);
    min = sa_min(limits.max, limits.high);
    if (min != SA_CGROUP_NONE)
        sa_limits_set(SA_LIMIT_SOFT, min / 100 * percent);
    if (limits.max != SA_CGROUP_NONE)
        sa_limits_set(SA_LIMIT_HARD, limits.max);
}

SA_RARE void sa_limits_read_options(void)
{
    if (!sa_options.group_limit)
        sa_store_relaxed(&sa_limits.watch, 0);
    if (sa_options.limit_from_cgroup)
        set_from_cgroup(sa_options.limit_from_cgroup);
    set_option(SA_LIMIT_SOFT, sa_options.soft_limit);
    set_option(SA_LIMIT_HARD, sa_options.hard_limit);
}
