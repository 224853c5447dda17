/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Maintenance; see maintain.h. The lock (MAINTAIN) is only ever tried: one pass at a time, and nobody
 * waits for it, except for an explicit release.
 */
#include "alloc/front/maintain.h"

#include "alloc/base/bits.h"
#include "alloc/front/cpu_cache.h"
#include "alloc/front/gate.h"
#include "alloc/front/sample_rates.h"
#include "alloc/front/soft_limit.h"
#include "alloc/middle/topology.h"
#include "alloc/middle/transfer.h"
#include "alloc/os/clock.h"
#include "alloc/os/lock.h"
#include "alloc/os/vm.h"
#include "alloc/page_heap/limits.h"
#include "alloc/page_heap/page_heap.h"
#include "sampling/kept.h"

#define MAINTAIN_NS 500000000ull

/*
 * After so many bytes were freed to the page heap, countdowns are shortened, so that a program that
 * freed a lot and now allocates little still comes by to release it.
 */
#define MAINTAIN_KICK_BYTES (16ul << 20)

#define MAINTAIN_SLICE_BYTES (64ul << 20)
#define MAINTAIN_UNMAP_BYTES (2ul << 20)

static SA_START_DATA struct {
    struct sa_lock lock;
    uint64_t next_ns;      /* atomic, relaxed: no pass before */
    uint64_t kicked_freed; /* atomic, relaxed: sa_page_heap_freed at the last kick */
    unsigned passes;
} maintain;

static void maintain_pass(uint64_t now)
{
    sa_cpu_cache_tick();
    if (maintain.passes++ % 2)
        sa_transfer_plunder();
    sa_page_heap_tick(&sa_page_heap_ordinary, now);
    sa_page_heap_tick(&sa_page_heap_sampled, now);
    sa_sample_rates_tick(now);
}

/* Where address space has run out before, the next demand is prepared for more often. */
static uint64_t maintain_kick_bytes(void)
{
    return SA_LIKELY(!sa_load_relaxed(&sa_vm.map_failures)) ? MAINTAIN_KICK_BYTES
                                                            : MAINTAIN_KICK_BYTES / 8;
}

/*
 * Objects in caches pin spans; while they do, other demand takes the holes between, and there is no
 * long run any more when one is needed. With enough address space that does not matter.
 */
static void maintain_defragment(void)
{
    sa_maintain_release(PTRDIFF_MAX);
    sa_store_relaxed(&maintain.kicked_freed, sa_page_heap_freed(&sa_page_heap_ordinary));
}

void sa_maintain_poll(void)
{
    uint64_t freed = sa_page_heap_freed(&sa_page_heap_ordinary);
    uint64_t now = sa_clock_coarse_ns();

    if (SA_UNLIKELY(sa_gate_is_closed()))
        return; /* this thread is the one that forks: nothing may be set going */

    if (SA_UNLIKELY(sa_load_relaxed(&sa_limits.soft_due)))
        sa_soft_limit_enforce();
    if (SA_UNLIKELY(freed - sa_load_relaxed(&maintain.kicked_freed) >= maintain_kick_bytes())) {
        sa_store_relaxed(&maintain.kicked_freed, freed);
        sa_cpu_cache_kick();
        if (sa_load_relaxed(&sa_vm.map_failures))
            maintain_defragment();
    }
    if (SA_LIKELY(now < sa_load_relaxed(&maintain.next_ns)))
        return;
    if (!sa_lock_try(&maintain.lock, SA_RANK_MAINTAIN))
        return;
    sa_store_relaxed(&maintain.next_ns, now + MAINTAIN_NS);
    maintain_pass(now);
    sa_lock_release(&maintain.lock, SA_RANK_MAINTAIN);
    if (sa_limits_active()) /* what is free may be so since the last request */
        sa_soft_limit_enforce();
}

unsigned long sa_maintain_release(unsigned long bytes)
{
    unsigned long given = 0, slice, got;

    if (sa_gate_is_closed())
        return 0;
    sa_lock_acquire(&maintain.lock, SA_RANK_MAINTAIN);
    sa_cpu_cache_drain(-1);
    sa_transfer_flush();
    do { /* in slices, so that a fork need not wait for all of it */
        slice = sa_min(bytes - given, MAINTAIN_SLICE_BYTES);
        got = sa_page_heap_release(&sa_page_heap_ordinary, slice);
        given += got;
    } while (given < bytes && got >= slice && !sa_gate_is_closed());
    if (given < bytes)
        given += sa_page_heap_release(&sa_page_heap_sampled, bytes - given);
    sa_lock_release(&maintain.lock, SA_RANK_MAINTAIN);
    return given;
}

size_t sa_maintain_make_room(void)
{
    sa_kept_flush();
    return sa_maintain_release(PTRDIFF_MAX);
}

void sa_maintain_recover(bool unmap)
{
    sa_maintain_make_room();
    /* Nobody can use what samples have left, but the address space. */
    sa_page_heap_unmap(&sa_page_heap_sampled, PTRDIFF_MAX);
    if (unmap)
        sa_page_heap_unmap(&sa_page_heap_ordinary, MAINTAIN_UNMAP_BYTES);
}

static void maintain_split(const uint8_t *domain_of, unsigned cpus, unsigned domains)
{
    if (!sa_gate_enter())
        return;
    sa_transfer_split(domain_of, cpus, domains);
    sa_gate_leave();
}

int sa_maintain_topology(void)
{
    return sa_topology_discover(maintain_split);
}
