/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Maintenance; see maintenance.h. The lock (MAINTAIN) is only ever tried: one pass at a time, and
 * nobody waits for it, except for an explicit release.
 */
#include "alloc/maintain/maintenance.h"

#include "alloc/base/bits.h"
#include "alloc/base/fatal.h"
#include "alloc/cpu_cache/cpu_cache.h"
#include "alloc/fork/deferred_calls.h"
#include "alloc/fork/fork_gate.h"
#include "alloc/hardening/hardened.h"
#include "alloc/hardening/inspect.h"
#include "alloc/maintain/group_limit.h"
#include "alloc/maintain/sample_rates.h"
#include "alloc/maintain/soft_limit.h"
#include "alloc/middle/topology.h"
#include "alloc/middle/transfer_cache.h"
#include "alloc/os/clock.h"
#include "alloc/os/lock.h"
#include "alloc/os/sys.h"
#include "alloc/os/thread.h"
#include "alloc/os/vm.h"
#include "alloc/page_heap/account/limits.h"
#include "alloc/page_heap/page_heap.h"
#include "sampling/guard/sample_quarantine.h"
#include "sampling/record/live_samples.h"
#include "sampling/stack/stack.h"

#define MAINTAIN_NS 500000000ull

/*
 * After so many bytes were freed to the page heap, countdowns are shortened, so that a program that
 * freed a lot and now allocates little still comes by to release it.
 */
#define MAINTAIN_KICK_BYTES (16ul << 20)

/* Rests of the background work: while there is something to do or was just now, and otherwise. */
#define BUSY_MS    500
#define BUSY_CALLS 4
#define QUIET_MS   4000

#define STEADY_MAX_NS 10000000000ull

/* Making hugepages may take this part of the time, as far as it counts (thp_collapse.c). Where
 * there is no thread for it, in steps, each of which is within somebody's malloc, and the longer it
 * took the later is the next. */
#define COLLAPSE_PART    80
#define COLLAPSE_STEP_NS 500000
#define COLLAPSE_NS      (BUSY_MS * 1000000ull / COLLAPSE_PART)
#define THREAD_AWAY_NS   (2 * QUIET_MS * 1000000ull)

#define MAINTAIN_SLICE_BYTES (64ul << 20)
#define MAINTAIN_UNMAP_BYTES (2ul << 20)

static SA_START_DATA struct {
    struct sa_lock lock;
    uint64_t next_ns;                                 /* atomic, relaxed: nothing is due before */
    uint64_t pass_ns SA_GUARDED_BY(SA_RANK_MAINTAIN); /* when the next pass is due */
    uint64_t collapse_ns SA_GUARDED_BY(SA_RANK_MAINTAIN); /* the next step in making hugepages */
    uint64_t kicked_freed; /* atomic, relaxed: sa_page_heap_freed at the last kick */
    uint64_t passes SA_GUARDED_BY(SA_RANK_MAINTAIN); /* atomic, relaxed */
    uint32_t sleeping; /* atomic: the thread waits for `wakes` to change */
    bool want_thread;  /* atomic, relaxed */
} maintain;

/* What few programs use. The first pass looks at it. */
static SA_START_DATA struct {
    size_t rate; /* atomic, relaxed: bytes in a second */
    /* When the rate was last looked at, what it was, and the bytes that it has earned since; less
     * than 0: more went than had to. */
    uint64_t steady_ns SA_GUARDED_BY(SA_RANK_MAINTAIN);
    size_t steady_rate SA_GUARDED_BY(SA_RANK_MAINTAIN);
    double steady_due SA_GUARDED_BY(SA_RANK_MAINTAIN);
    uint64_t thread_ns; /* atomic, relaxed: until then hugepages are left to the thread */
    bool more;          /* atomic, relaxed: the last pass left something for the next */
    unsigned
        quiet; /* atomic, relaxed: calls of sa_maintenance_background that found nothing to do */
    uint64_t seen_freed;               /* atomic, relaxed: what it saw */
    uint32_t wakes;                    /* atomic */
    struct sa_maintenance_stats stats; /* atomic, relaxed; `passes` is above */
} background;

static size_t maintain_release_some(size_t bytes)
{
    size_t given = sa_page_heap_release(&sa_page_heap_ordinary, bytes);

    return given < bytes ? given + sa_page_heap_release(&sa_page_heap_sampled, bytes - given)
                         : given;
}

/*
 * What the release rate has earned since the last pass, but no more than in ten seconds. Where less
 * is free than that, nothing is saved for later.
 */
static void maintain_steady(uint64_t now) SA_REQUIRES(SA_RANK_MAINTAIN)
{
    size_t rate = sa_load_relaxed(&background.rate), due, given;
    uint64_t elapsed = sa_min(now - background.steady_ns, STEADY_MAX_NS);

    background.steady_ns = now;
    if (SA_UNLIKELY(rate != background.steady_rate)) { /* it counts from now on */
        background.steady_rate = rate;
        background.steady_due = 0;
        return;
    }
    if (SA_LIKELY(!rate))
        return;
    background.steady_due += (double)rate * ((double)elapsed * 1e-9);
    if (background.steady_due < (double)SA_PAGE_BYTES)
        return;
    due = background.steady_due < (double)PTRDIFF_MAX ? (size_t)background.steady_due : PTRDIFF_MAX;
    given = maintain_release_some(due);
    background.steady_due = given < due ? 0 : background.steady_due - (double)given;
    SA_DCHECK(background.steady_due < (double)PTRDIFF_MAX || given == due);
    sa_add_relaxed(&background.stats.steady_bytes, given);
}

static void maintain_pass(uint64_t now) SA_REQUIRES(SA_RANK_MAINTAIN)
{
    bool more;

    SA_DCHECK(sa_thread.gate_depth);
    sa_cpu_cache_tick();
    if (maintain.passes % 2)
        sa_transfer_plunder();
    sa_count_add(&maintain.passes, 1);
    more = sa_page_heap_tick(&sa_page_heap_ordinary, now);
    more |= sa_page_heap_tick(&sa_page_heap_sampled, now);
    maintain_steady(now);
    sa_store_relaxed(&background.more, more);
    if (more) /* it goes on as soon as the program allocates anything */
        sa_cpu_cache_kick();
    sa_sample_rates_tick(now);
    SA_VALIDATE(sa_stack_table_validate());
    SA_VALIDATE(sa_live_samples_validate());
    if (SA_UNLIKELY(sa_hardening.inspect))
        sa_inspect_some();
}

static void maintain_due(uint64_t now) SA_REQUIRES(SA_RANK_MAINTAIN)
{
    uint64_t spent;

    if (now >= maintain.pass_ns) {
        maintain.pass_ns = now + MAINTAIN_NS;
        sa_store_relaxed(&maintain.next_ns, maintain.pass_ns);
        maintain_pass(now);
    }
    if (now >= maintain.collapse_ns && now >= sa_load_relaxed(&background.thread_ns)) {
        spent = sa_page_heap_collapse(&sa_page_heap_ordinary, COLLAPSE_STEP_NS);
        maintain.collapse_ns = spent ? now + spent * COLLAPSE_PART : maintain.pass_ns;
    }
    sa_store_relaxed(&maintain.next_ns, maintain.collapse_ns > now
                                            ? sa_min(maintain.collapse_ns, maintain.pass_ns)
                                            : maintain.pass_ns);
}

/* Where address space has run out before, the next demand is prepared for more often. */
static uint64_t maintain_kick_bytes(void)
{
    return SA_LIKELY(!sa_load_relaxed(&sa_vm.map_failures)) ? MAINTAIN_KICK_BYTES
                                                            : MAINTAIN_KICK_BYTES / 8;
}

/* Empties the caches, so that address space comes together. Free pages in hugepages that are used
 * hold none, and stay. */
SA_RARE static void maintain_gather(void)
{
    if (sa_fork_gate_is_closed())
        return;
    sa_lock_acquire(&maintain.lock, SA_RANK_MAINTAIN);
    sa_cpu_cache_drain(-1);
    sa_transfer_flush();
    sa_sample_quarantine_retry(true);
    sa_page_heap_gather(&sa_page_heap_ordinary);
    sa_page_heap_gather(&sa_page_heap_sampled);
    sa_lock_release(&maintain.lock, SA_RANK_MAINTAIN);
}

/*
 * Objects in caches pin spans; while they do, other demand takes the holes between, and there is no
 * long run any more when one is needed. With enough address space that does not matter.
 */
static void maintain_defragment(void)
{
    maintain_gather();
    sa_store_relaxed(&maintain.kicked_freed, sa_page_heap_freed(&sa_page_heap_ordinary));
}

void sa_maintenance_poll(void)
{
    uint64_t freed = sa_page_heap_freed(&sa_page_heap_ordinary);
    uint64_t now = sa_clock_coarse_ns();

    SA_DCHECK(sa_thread.gate_depth);
    if (SA_UNLIKELY(sa_fork_gate_is_closed()))
        return; /* this thread is the one that forks: nothing may be set going */

    if (SA_UNLIKELY(sa_load_relaxed(&sa_limits.soft_due)))
        sa_soft_limit_enforce();
    if (SA_UNLIKELY(freed - sa_load_relaxed(&maintain.kicked_freed) >= maintain_kick_bytes())) {
        sa_store_relaxed(&maintain.kicked_freed, freed);
        sa_cpu_cache_kick();
        if (SA_UNLIKELY(sa_load_relaxed(&maintain.sleeping)))
            sa_maintenance_wake();
        if (sa_load_relaxed(&sa_vm.map_failures))
            maintain_defragment();
    }
    if (SA_LIKELY(now < sa_load_relaxed(&maintain.next_ns)))
        return;
    if (!sa_lock_try(&maintain.lock, SA_RANK_MAINTAIN))
        return;
    maintain_due(now);
    sa_lock_release(&maintain.lock, SA_RANK_MAINTAIN);
    /* What is free may be so since the last request. */
    if (sa_limits_active() || SA_UNLIKELY(sa_group_limit_is_due(now)))
        sa_soft_limit_enforce();
    if (SA_UNLIKELY(sa_load_relaxed(&maintain.want_thread))) {
        sa_store_relaxed(&maintain.want_thread, false);
        sa_deferred_call_request(SA_DEFERRED_THREAD);
    }
}

SA_RARE unsigned long sa_maintenance_release(unsigned long bytes)
{
    unsigned long given = 0, slice, got;

    if (sa_fork_gate_is_closed())
        return 0;
    sa_lock_acquire(&maintain.lock, SA_RANK_MAINTAIN);
    sa_cpu_cache_drain(-1);
    sa_transfer_flush();
    sa_sample_quarantine_retry(true);
    do { /* in slices, so that a fork need not wait for all of it */
        slice = sa_min(bytes - given, MAINTAIN_SLICE_BYTES);
        got = sa_page_heap_release(&sa_page_heap_ordinary, slice);
        given += got;
    } while (given < bytes && got >= slice && !sa_fork_gate_is_closed());
    if (given < bytes)
        given += sa_page_heap_release(&sa_page_heap_sampled, bytes - given);
    sa_lock_release(&maintain.lock, SA_RANK_MAINTAIN);
    return given;
}

SA_RARE unsigned long sa_maintenance_release_requested(unsigned long bytes)
{
    unsigned long given = sa_maintenance_release(bytes);

    sa_add_relaxed(&background.stats.requested_bytes, given);
    return given;
}

SA_RARE size_t sa_maintenance_make_room(void)
{
    sa_sample_quarantine_flush();
    sa_hardened_flush();
    return sa_maintenance_release(PTRDIFF_MAX);
}

SA_RARE void sa_maintenance_recover(bool unmap)
{
    SA_DCHECK(sa_thread.gate_depth);
    sa_sample_quarantine_pause();
    sa_sample_quarantine_flush();
    sa_hardened_flush();
    maintain_gather();
    /* Nobody can use what samples have left, but the address space. */
    sa_page_heap_unmap(&sa_page_heap_sampled, PTRDIFF_MAX);
    if (unmap)
        sa_page_heap_unmap(&sa_page_heap_ordinary, MAINTAIN_UNMAP_BYTES);
    /* What is inaccessible does not count as data, what is free does. */
    if (SA_UNLIKELY(!sa_sample_quarantine_retry(true))) {
        sa_page_heap_unmap(&sa_page_heap_ordinary, PTRDIFF_MAX);
        sa_sample_quarantine_retry(true);
    }
}

SA_RARE static void maintain_split(const uint8_t *domain_of, unsigned cpus, unsigned domains)
{
    if (!sa_fork_gate_enter())
        return;
    sa_transfer_split(domain_of, cpus, domains);
    sa_fork_gate_leave();
}

SA_RARE int sa_maintenance_topology(void)
{
    return sa_topology_discover(maintain_split);
}

void sa_maintenance_set_release_rate(size_t bytes)
{
    sa_store_relaxed(&background.rate, bytes);
}

SA_RARE size_t sa_maintenance_release_rate(void)
{
    return sa_load_relaxed(&background.rate);
}

/* Whether there was something to do. */
static bool background_collapse(void)
{
    uint64_t spent;

    if (!sa_lock_try(&maintain.lock, SA_RANK_MAINTAIN))
        return true;
    spent = sa_page_heap_collapse(&sa_page_heap_ordinary, COLLAPSE_NS);
    sa_lock_release(&maintain.lock, SA_RANK_MAINTAIN);
    return spent != 0;
}

SA_RARE unsigned sa_maintenance_background(void)
{
    uint64_t freed = sa_page_heap_freed(&sa_page_heap_ordinary);
    unsigned quiet = sa_load_relaxed(&background.quiet);
    bool collapsed;

    if (!sa_fork_gate_enter())
        return BUSY_MS;
    sa_store_relaxed(&background.thread_ns, sa_clock_coarse_ns() + THREAD_AWAY_NS);
    sa_maintenance_poll();
    collapsed = background_collapse();
    sa_fork_gate_leave();
    if (collapsed || sa_load_relaxed(&background.more) ||
        freed != sa_load_relaxed(&background.seen_freed))
        quiet = 0;
    else if (quiet <= BUSY_CALLS)
        quiet++;
    sa_store_relaxed(&background.seen_freed, freed);
    sa_store_relaxed(&background.quiet, quiet);
    /* What caches give up shows as freed a pass or two later. */
    return quiet > BUSY_CALLS ? QUIET_MS : BUSY_MS;
}

SA_RARE void sa_maintenance_want_thread(bool wanted, bool soon)
{
    if (wanted && !soon)
        sa_store_relaxed(&maintain.next_ns, sa_clock_coarse_ns() + MAINTAIN_NS);
    sa_store_relaxed(&maintain.want_thread, wanted);
}

SA_RARE uint32_t sa_maintenance_wakes(void)
{
    return sa_load_acquire(&background.wakes);
}

SA_RARE void sa_maintenance_sleep(uint32_t wakes, unsigned ms)
{
    sa_store_seq_cst(&maintain.sleeping, 1); /* before the kernel looks at the number */
    sa_sys_futex_wait(&background.wakes, wakes, (int64_t)ms * 1000000);
    sa_store_relaxed(&maintain.sleeping, 0);
}

SA_RARE void sa_maintenance_wake(void)
{
    sa_add_seq_cst(&background.wakes, 1);
    if (sa_load_seq_cst(&maintain.sleeping))
        sa_sys_futex_wake(&background.wakes, 1);
}

SA_RARE void sa_maintenance_relieve(void)
{
    if (!sa_fork_gate_enter())
        return;
    sa_add_relaxed(&background.stats.pressures, 1);
    sa_add_relaxed(&background.stats.pressure_bytes, sa_maintenance_release(PTRDIFF_MAX));
    sa_fork_gate_leave();
}

SA_RARE void sa_maintenance_stats(struct sa_maintenance_stats *ret)
{
    ret->passes = sa_load_relaxed(&maintain.passes);
    ret->steady_bytes = sa_load_relaxed(&background.stats.steady_bytes);
    ret->pressures = sa_load_relaxed(&background.stats.pressures);
    ret->pressure_bytes = sa_load_relaxed(&background.stats.pressure_bytes);
    ret->requested_bytes = sa_load_relaxed(&background.stats.requested_bytes);
}
