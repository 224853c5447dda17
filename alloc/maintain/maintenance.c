/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Maintenance; see maintenance.h. MAINTAIN makes passes exclusive. Slow paths only try it: if
 * another thread holds it, that thread does the work. An explicit release waits for the lock.
 *
 * Words that slow paths read without the lock are atomic. A stale value makes a pass come late or
 * too often, and does no other harm.
 */
#include "alloc/maintain/maintenance.h"

#include "alloc/base/bits.h"
#include "alloc/base/fatal.h"
#include "alloc/base/layout.h"
#include "alloc/base/single_threaded.h"
#include "alloc/cpu_cache/cpu_cache.h"
#include "alloc/fork/deferred_calls.h"
#include "alloc/fork/fork_gate.h"
#include "alloc/hardening/hardened.h"
#include "alloc/hardening/inspect.h"
#include "alloc/maintain/group_limit.h"
#include "alloc/maintain/release_rate.h"
#include "alloc/maintain/sample_rates.h"
#include "alloc/maintain/soft_limit.h"
#include "alloc/middle/central_mix.h"
#include "alloc/middle/mixed_returns.h"
#include "alloc/middle/mixed_spans.h"
#include "alloc/middle/topology.h"
#include "alloc/middle/transfer_cache.h"
#include "alloc/os/clock.h"
#include "alloc/os/lock.h"
#include "alloc/os/sys.h"
#include "alloc/os/thread.h"
#include "alloc/os/vm.h"
#include "alloc/page_heap/account/footprint.h"
#include "alloc/page_heap/account/limits.h"
#include "alloc/page_heap/page_heap.h"
#include "sampling/guard/sample_quarantine.h"
#include "sampling/record/live_samples.h"
#include "sampling/stack/stack.h"

/* The time from one pass to the next. */
#define MAINTAIN_NS 500000000ull

/* Passes take at most 1/PASS_FRACTION of the time: a debugger that steps makes one take seconds. */
#define PASS_FRACTION 4

/* The time from one step in releasing memory to the next. */
#define RELEASE_STEP_NS 8000000ull

/* After this many bytes were freed to the page heap, all countdowns are shortened. A program that
 * has freed much and now allocates little thus reaches a slow path soon, which releases memory. */
#define MAINTAIN_KICK_BYTES (16ul << 20)

/* From this much free memory on, a process that has several threads anyway has an idle watch. One
 * that has a single thread waits for sa_page_heap_swings: a second thread makes each lock of libc
 * slower. */
#define WATCH_BYTES (24ul << 20)

/* The time between two looks of the idle watch while slow paths make passes. Longer than the time
 * between two passes. */
#define LOOK_MS 1000

/* The idle watch ends when it has had no reason to stay for so long. By then a page that nobody
 * needs has gone back (SA_RELEASE_NS). */
#define WATCH_NS 8000000000ull

/* The time between two calls of sa_maintenance_background: BUSY_MS, but QUIET_MS once more than
 * BUSY_CALLS calls in a row have found nothing to do. */
#define BUSY_MS    500
#define BUSY_CALLS 4
#define QUIET_MS   4000

/*
 * Making hugepages takes at most 1/COLLAPSE_FRACTION of the time, as thp_collapse.c counts it.
 * Without a maintenance thread it happens in steps of COLLAPSE_STEP_NS, each within a call of
 * malloc or free; the longer a step took, the later the next one comes. With a thread, the thread
 * does COLLAPSE_NS at a time. If it has not come by for THREAD_AWAY_NS, the slow paths take over
 * again.
 */
#define COLLAPSE_FRACTION 80
#define COLLAPSE_STEP_NS  500000
#define COLLAPSE_NS       (BUSY_MS * 1000000ull / COLLAPSE_FRACTION)
#define THREAD_AWAY_NS    (2 * QUIET_MS * 1000000ull)

/* Bytes of one step of a release, and the least bytes that sa_maintenance_recover unmaps. */
#define MAINTAIN_SLICE_BYTES (64ul << 20)
#define MAINTAIN_UNMAP_BYTES (2ul << 20)

/* The most that the heap of sampled blocks releases after a fall: a free run is a system call. */
#define MAINTAIN_FALL_BYTES (8ul << 20)

static SA_START_DATA struct {
    struct sa_lock lock;
    /* Atomic, relaxed; written by passes, and to request the thread: nothing is due before. */
    uint64_t next_ns;
    uint64_t pass_ns SA_GUARDED_BY(SA_RANK_MAINTAIN);     /* when the next pass is due */
    uint64_t release_ns SA_GUARDED_BY(SA_RANK_MAINTAIN);  /* when the next step in releasing is */
    uint64_t collapse_ns SA_GUARDED_BY(SA_RANK_MAINTAIN); /* when hugepages are next made */
    /* Atomic, relaxed; written by any slow path: sa_page_heap_freed when countdowns were last
     * shortened. */
    uint64_t kicked_freed;
    uint64_t passes SA_GUARDED_BY(SA_RANK_MAINTAIN); /* since the start; atomic, relaxed */
    uint32_t sleeping; /* atomic, ordered with `wakes`; written by the thread: SLEEPS_... */
    bool want_thread;  /* atomic, relaxed: the next pass requests the thread */
    uint64_t watch_ns; /* atomic, relaxed: from when on there may be an idle watch; SA_NEVER */
} maintain = {.watch_ns = SA_NEVER};

/* How the thread sleeps: until its time, or also until much memory has been freed. */
enum { SLEEPS_NOT, SLEEPS_QUIETLY, SLEEPS_LIGHTLY };

/* What few programs use. The first pass reads it. */
static SA_START_DATA struct {
    uint64_t thread_ns; /* atomic, relaxed; written by the thread: until then it makes hugepages */
    bool more;          /* atomic, relaxed; written by passes: the next one has more to release */
    /* Written by sa_maintenance_background, atomic, relaxed: its calls in a row that found nothing
     * to do, up to BUSY_CALLS + 1; and sa_page_heap_freed at its last call. */
    unsigned quiet;
    uint64_t seen_freed;
    uint32_t wakes; /* atomic: calls of sa_maintenance_wake */
    /* Atomic, relaxed; without `passes`, which is above, and steady_bytes. */
    struct sa_maintenance_stats stats;
} background;

/* What reports show. */
SA_LAYOUT = {
    SA_LAYOUT_STATE("maintain", maintain, passes),
    SA_LAYOUT_STATE("maintain_more", background, stats),
};
SA_LAYOUT_STATIC_ADDRESS("maintain", maintain);
SA_LAYOUT_STATIC_ADDRESS("maintain_more", background);

/* Whether much memory would stay if the program made no further call. */
static bool maintain_much_would_stay(void)
{
    return (sa_load_relaxed(&sa_page_heap_swings) ||
            (sa_load_relaxed(&sa_footprint.idle) > WATCH_BYTES && !sa_single_threaded())) &&
           !sa_limits_keep_all();
}

/* Requests the thread as an idle watch, if there is reason. The time for it has come. */
SA_RARE static void maintain_request_watch(void)
{
    if (!maintain_much_would_stay())
        return;
    sa_store_relaxed(&maintain.watch_ns, SA_NEVER);
    sa_deferred_call_request(SA_DEFERRED_THREAD);
}

/* One pass: moves capacity between caches, releases memory that was not needed, applies the release
 * rate, and chooses sampling rates. */
static void maintain_pass(uint64_t now) SA_INSIDE_GATE SA_REQUIRES(SA_RANK_MAINTAIN)
{
    bool more;

    SA_DCHECK(sa_thread.gate_depth);
    sa_cpu_cache_tick();
    if (maintain.passes % 2)
        sa_transfer_plunder();
    if (SA_UNLIKELY(sa_load_relaxed(&sa_mixed_any)))
        sa_mixed_returns_tick(now);
    sa_count_add(&maintain.passes, 1);
    more = sa_page_heap_tick(&sa_page_heap_ordinary, now);
    more |= sa_page_heap_tick(&sa_page_heap_sampled, now);
    sa_release_rate_apply(now);
    sa_vm_unmap_refused(); /* if nothing else maps or unmaps, it would stay */
    sa_store_relaxed(&background.more, more);
    if (more) /* the next pass comes soon after the program's next allocation */
        sa_cpu_cache_kick();
    sa_sample_rates_tick(now);
    SA_VALIDATE(sa_stack_table_validate());
    SA_VALIDATE(sa_live_samples_validate());
    if (SA_UNLIKELY(sa_hardening.inspect))
        sa_inspect_some();
}

/* Runs a pass, or a step in releasing memory, and a step in making hugepages if their time has
 * come, and sets the time of the next. */
static void maintain_due(uint64_t now) SA_INSIDE_GATE SA_REQUIRES(SA_RANK_MAINTAIN)
{
    uint64_t spent, next;

    if (now >= maintain.pass_ns) {
        maintain.pass_ns = now + MAINTAIN_NS;
        sa_store_relaxed(&maintain.next_ns, maintain.pass_ns);
        maintain_pass(now);
        spent = sa_clock_coarse_ns() - now;
        maintain.pass_ns = now + sa_max(MAINTAIN_NS, spent * PASS_FRACTION);
        maintain.release_ns = sa_load_relaxed(&sa_page_heap_due) ? now + RELEASE_STEP_NS : SA_NEVER;
    } else if (now >= maintain.release_ns) {
        maintain.release_ns =
            sa_page_heap_step(&sa_page_heap_ordinary) ? now + RELEASE_STEP_NS : SA_NEVER;
    }
    if (now >= maintain.collapse_ns && now >= sa_load_relaxed(&background.thread_ns)) {
        spent = sa_page_heap_collapse(&sa_page_heap_ordinary, COLLAPSE_STEP_NS);
        maintain.collapse_ns = spent ? now + spent * COLLAPSE_FRACTION : maintain.pass_ns;
    }
    next = sa_min(maintain.pass_ns, maintain.release_ns);
    sa_store_relaxed(&maintain.next_ns,
                     maintain.collapse_ns > now ? sa_min(maintain.collapse_ns, next) : next);
}

/* Once the kernel has refused a mapping, caches are emptied 8 times as often, so that address space
 * comes together before the next demand. */
static uint64_t maintain_kick_bytes(void)
{
    return SA_LIKELY(!sa_load_relaxed(&sa_vm.map_failures)) ? MAINTAIN_KICK_BYTES
                                                            : MAINTAIN_KICK_BYTES / 8;
}

/*
 * Empties the caches, and returns pages of the sample quarantine that could not be made accessible
 * before, so that runs of free pages become long. Keeps free pages in partly used hugepages, which
 * hold no such runs.
 */
SA_RARE static void maintain_gather(void) SA_INSIDE_GATE
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
 * After address space has run out: empties the caches. A cached object keeps its span; meanwhile
 * other demand takes the free pages beside it, and no long run is left when one is needed. With
 * enough address space that does no harm.
 */
static void maintain_defragment(void) SA_INSIDE_GATE
{
    maintain_gather();
    sa_store_relaxed(&maintain.kicked_freed, sa_page_heap_freed(&sa_page_heap_ordinary));
}

/* Empties the CPU caches if they keep mixed spans from being used. */
SA_RARE static void maintain_drain_for_mixed(void)
{
    if (sa_central_mix_drain_is_due(sa_cpu_cache_limit() * (size_t)sa_cpu_cache_count()))
        sa_cpu_cache_drain(-1);
}

/* Empties the caches, because most of the heap was freed. The samples of what was freed have left
 * the heap of sampled blocks free pages, as many as it may keep. */
SA_RARE SA_NOINLINE static void maintain_answer_fall(void)
{
    unsigned char begun = SA_FALL_BEGUN;

    if (!sa_cas_relaxed(&sa_page_heap_fall, &begun, SA_FALL_ANSWERED))
        return;
    sa_cpu_cache_drain(-1);
    sa_transfer_flush();
    sa_page_heap_release(&sa_page_heap_sampled, MAINTAIN_FALL_BYTES);
}

void sa_maintenance_poll(uint64_t now)
{
    uint64_t freed = sa_page_heap_freed(&sa_page_heap_ordinary);

    SA_DCHECK(sa_thread.gate_depth);
    if (SA_UNLIKELY(sa_fork_gate_is_closed()))
        return; /* this thread forks: no pass may begin */

    if (SA_UNLIKELY(sa_load_relaxed(&sa_limits.soft_due)))
        sa_soft_limit_enforce();
    if (SA_UNLIKELY(sa_load_relaxed(&sa_central_mix_shakes)))
        maintain_drain_for_mixed();
    if (SA_UNLIKELY(sa_load_relaxed(&sa_page_heap_fall) == SA_FALL_BEGUN))
        maintain_answer_fall();
    if (SA_UNLIKELY(freed - sa_load_relaxed(&maintain.kicked_freed) >= maintain_kick_bytes())) {
        sa_store_relaxed(&maintain.kicked_freed, freed);
        sa_cpu_cache_kick();
        if (SA_UNLIKELY(sa_load_relaxed(&maintain.sleeping) == SLEEPS_LIGHTLY))
            sa_maintenance_wake();
        if (sa_load_relaxed(&sa_vm.map_failures))
            maintain_defragment();
    }
    if (SA_UNLIKELY(now >= sa_load_relaxed(&maintain.watch_ns)))
        maintain_request_watch();
    if (SA_LIKELY(now < sa_load_relaxed(&maintain.next_ns)))
        return;
    if (!sa_lock_try(&maintain.lock, SA_RANK_MAINTAIN))
        return;
    maintain_due(now);
    sa_lock_release(&maintain.lock, SA_RANK_MAINTAIN);
    /* Memory may have become free since the last request was checked against the limit. */
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
    do { /* in slices: a fork that waits for the gate ends the release after the current one */
        slice = sa_min(bytes - given, MAINTAIN_SLICE_BYTES);
        got = sa_page_heap_release(&sa_page_heap_ordinary, slice);
        given += got;
    } while (given < bytes && got >= slice && !sa_fork_gate_is_closed());
    if (given < bytes)
        given += sa_page_heap_release(&sa_page_heap_sampled, bytes - given);
    sa_vm_unmap_refused();
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
    /* Only the sampled heap can use the pages of former samples, but their address space can serve
     * the ordinary heap. */
    sa_page_heap_unmap(&sa_page_heap_sampled, PTRDIFF_MAX);
    if (unmap)
        sa_page_heap_unmap(&sa_page_heap_ordinary, MAINTAIN_UNMAP_BYTES);
    /* Pages of the quarantine could not be made accessible: free pages count towards the limit of
     * the process's data, inaccessible ones do not. Unmaps free pages and tries again. */
    if (SA_UNLIKELY(!sa_sample_quarantine_retry(true))) {
        sa_page_heap_unmap(&sa_page_heap_ordinary, PTRDIFF_MAX);
        sa_sample_quarantine_retry(true);
    }
}

/* Splits the transfer cache, inside the fork gate. In a fork that is in progress: does nothing. */
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

/* Makes hugepages. Returns whether there was anything to do. */
static bool background_collapse(void) SA_INSIDE_GATE
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
    sa_maintenance_poll(sa_clock_coarse_ns());
    collapsed = background_collapse();
    sa_fork_gate_leave();
    if (collapsed || sa_load_relaxed(&background.more) ||
        freed != sa_load_relaxed(&background.seen_freed))
        quiet = 0;
    else if (quiet <= BUSY_CALLS)
        quiet++;
    sa_store_relaxed(&background.seen_freed, freed);
    sa_store_relaxed(&background.quiet, quiet);
    /* Memory that caches give up becomes free one or two passes later. */
    return quiet > BUSY_CALLS ? QUIET_MS : BUSY_MS;
}

SA_RARE unsigned sa_maintenance_watch(struct sa_idle_watch *w)
{
    uint64_t passes = sa_load_relaxed(&maintain.passes), now = sa_clock_coarse_ns();
    bool busy = passes != w->passes;

    w->passes = passes;
    if (!w->end_ns || (busy && maintain_much_would_stay()))
        w->end_ns = now + WATCH_NS;
    if (now >= w->end_ns)
        return 0;
    if (busy) /* the program does the work itself */
        return LOOK_MS;
    if (!sa_fork_gate_enter())
        return BUSY_MS;
    sa_maintenance_poll(now);
    sa_fork_gate_leave();
    w->passes = sa_load_relaxed(&maintain.passes);
    return BUSY_MS;
}

SA_RARE void sa_maintenance_want_watch(uint64_t after_ns)
{
    /* The constructor calls this before the clock is known. */
    bool now = after_ns == 0 || after_ns == SA_NEVER;

    sa_store_relaxed(&maintain.watch_ns, now ? after_ns : sa_clock_coarse_ns() + after_ns);
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
    /* Before the kernel reads `wakes`, which sa_maintenance_wake changes before it reads this. */
    sa_store_seq_cst(&maintain.sleeping, ms > LOOK_MS ? SLEEPS_LIGHTLY : SLEEPS_QUIETLY);
    sa_sys_futex_wait(&background.wakes, wakes, (int64_t)ms * 1000000);
    sa_store_relaxed(&maintain.sleeping, SLEEPS_NOT);
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
    ret->steady_bytes = sa_release_rate_bytes();
    ret->pressures = sa_load_relaxed(&background.stats.pressures);
    ret->pressure_bytes = sa_load_relaxed(&background.stats.pressure_bytes);
    ret->requested_bytes = sa_load_relaxed(&background.stats.requested_bytes);
}
