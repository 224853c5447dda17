/* SPDX-License-Identifier: Apache-2.0 */
/* Limits on memory, as the program and the options set them; contracts in
 * include/salloc/salloc.h. */
#include "alloc/api/limit_options.h"

#include "alloc/api/init.h"
#include "alloc/api/options.h"
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

static struct sa_lock limits_lock; /* CONTROL: one thread at a time sets limits */

/* 0, or why a limit cannot be this. */
static int limit_error(size_t bytes)
{
    if (bytes == 0)
        return EINVAL;
    return bytes > PTRDIFF_MAX && bytes != SALLOC_NO_LIMIT ? ERANGE : 0;
}

/* What is over the limit already goes back as far as it can. Inside the gate. */
static void limit_take_effect(enum sa_limit_kind kind)
{
    size_t over = sa_limits_excess(kind);

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

static void set_option(enum sa_limit_kind kind, size_t bytes)
{
    if (bytes)
        sa_limits_set(kind, bytes);
}

/* What the control group may have is all that there is; where it is slowed down, or nearly has all,
 * memory goes back. */
static void set_from_cgroup(unsigned percent)
{
    struct sa_cgroup_limits limits;
    uint64_t least;

    sa_cgroup_read_limits("", &limits);
    least = sa_min(limits.max, limits.high);
    if (least != SA_CGROUP_NONE)
        sa_limits_set(SA_LIMIT_SOFT, least / 100 * percent);
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
