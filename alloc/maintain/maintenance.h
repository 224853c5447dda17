/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Housekeeping by elapsed time: releases free memory to the system, empties idle caches, moves
 * capacity between caches, makes hugepages. Slow paths run it, and no thread of its own is needed.
 * A program that may stop calling malloc and free can have one in addition
 * (alloc/api/control/background.c).
 *
 * Any thread may call these functions. MAINTAIN allows one pass at a time.
 */
#ifndef SA_MAINTAIN_MAINTENANCE_H
#define SA_MAINTAIN_MAINTENANCE_H

#include "alloc/base/thread_safety.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Does what is due. Every slow path calls it at its end, inside the fork gate, with no lock held.
 * now: the coarse clock, read in the same slow path. Takes a few loads if nothing is due. */
void sa_maintenance_poll(uint64_t now) SA_INSIDE_GATE;

/* Empties all caches and releases at least `bytes` of free memory, if there is that much. Returns
 * the bytes released. Inside the fork gate, without a lock; 0 if this thread is forking. */
unsigned long sa_maintenance_release(unsigned long bytes) SA_INSIDE_GATE;

/* For an allocation that failed at the hard limit: empties caches and quarantines, and releases all
 * free memory. Returns the bytes released. */
size_t sa_maintenance_make_room(void) SA_INSIDE_GATE;

/*
 * For an allocation that found no memory: empties caches and quarantines, so that runs of free
 * pages become long, and unmaps the free spans of the sampled heap. unmap: also unmaps some of the
 * ordinary heap, because the allocator's own records may be what lacks address space. Inside the
 * fork gate.
 */
void sa_maintenance_recover(bool unmap) SA_INSIDE_GATE;

/*
 * Does what is due, for a thread with nothing else to do. Outside the fork gate. Returns the
 * milliseconds after which to call again: 500, or 4000 if nothing has happened for a while. Memory
 * that is free then still goes back within ten seconds.
 */
unsigned sa_maintenance_background(void) SA_OUTSIDE_GATE;

/* What the idle watch remembers: the passes that had been made at its last look, by whomever, and
 * when it ends. All zero at first. */
struct sa_idle_watch {
    uint64_t passes, end_ns;
};

/*
 * A look of the idle watch, the thread of a process that did not ask for one. Does what is due if
 * no slow path has done so since the last look: the program is idle. Outside the fork gate. Returns
 * the milliseconds until the next look, or 0: the watch is no longer needed.
 */
unsigned sa_maintenance_watch(struct sa_idle_watch *watch) SA_OUTSIDE_GATE;

#define SA_NEVER UINT64_MAX

/* After so many nanoseconds an idle watch is requested (SA_DEFERRED_THREAD) as soon as the program
 * might leave much free memory behind when it becomes idle. The request is the only one until the
 * next call. At the start: SA_NEVER. */
void sa_maintenance_want_watch(uint64_t after_ns);

/* Sets whether the next pass requests the start of the maintenance thread (SA_DEFERRED_THREAD).
 * soon: at the next pass that is due; else a pass of at least 500 ms from now. */
void sa_maintenance_want_thread(bool wanted, bool soon);

/*
 * For the maintenance thread: sleeps up to `ms`. Does not sleep if sa_maintenance_wake was called
 * since sa_maintenance_wakes returned `wakes`. From a sleep of more than a second, slow paths wake
 * the thread when much has been freed.
 */
uint32_t sa_maintenance_wakes(void);
void sa_maintenance_sleep(uint32_t wakes, unsigned ms);
void sa_maintenance_wake(void);

/* Releases all free memory, because memory is scarce in the system. Outside the fork gate. */
void sa_maintenance_relieve(void) SA_OUTSIDE_GATE;

struct sa_maintenance_stats {
    uint64_t passes;
    uint64_t steady_bytes;    /* released because of the release rate */
    uint64_t pressures;       /* times that memory pressure was found */
    uint64_t pressure_bytes;  /* released because of it */
    uint64_t requested_bytes; /* released at the program's request */
};

/* As sa_maintenance_release, at the program's request: counts the bytes. */
unsigned long sa_maintenance_release_requested(unsigned long bytes) SA_INSIDE_GATE;

void sa_maintenance_stats(struct sa_maintenance_stats *ret);

/* Asks for the cache topology and splits the transfer cache by it. Returns the domains in use, or a
 * negative errno. Outside the fork gate; see sa_topology_discover. */
int sa_maintenance_topology(void) SA_OUTSIDE_GATE;

#endif
