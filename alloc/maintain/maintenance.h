/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Housekeeping by elapsed time, run by whichever slow path comes by: returning free memory to the
 * system, emptying idle caches, moving budget. A thread that has nothing else to do may come by,
 * too (alloc/api/background.c); none is needed.
 */
#ifndef SA_MAINTAIN_MAINTENANCE_H
#define SA_MAINTAIN_MAINTENANCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Called inside the gate, with no lock held, at the end of slow paths. Cheap when nothing is
 * due. */
void sa_maintenance_poll(void);

/* Empties all caches and gives free memory back; at least bytes if there is as much. What it
 * gave. */
unsigned long sa_maintenance_release(unsigned long bytes);

/* After an allocation has failed at the hard limit: empties the caches and gives all free memory
 * back. What it gave. */
size_t sa_maintenance_make_room(void);

/*
 * After an allocation has failed: empties the caches and gives all free memory back, so that runs
 * of pages become as long as they can, and unmaps some of it if that is what may be missing (for
 * the allocator's own records).
 */
void sa_maintenance_recover(bool unmap);

/* Memory that is given back in any case, needed or not, as long as there is free memory: bytes in a
 * second, 0: none. */
void sa_maintenance_set_release_rate(size_t bytes);
size_t sa_maintenance_release_rate(void);

/* Outside of the gate: does what is due. The milliseconds after which to come again: more when
 * nothing has happened for a while, but few enough that memory goes back within ten seconds. */
unsigned sa_maintenance_background(void);

/* The next pass asks for the thread to be started (SA_DEFERRED_THREAD). soon: by a pass that is due
 * now. */
void sa_maintenance_want_thread(bool wanted, bool soon);

/*
 * For that thread: sleeps, unless sa_maintenance_wake was called since sa_maintenance_wakes gave
 * the number, which it is when much has been freed.
 */
uint32_t sa_maintenance_wakes(void);
void sa_maintenance_sleep(uint32_t wakes, unsigned ms);
void sa_maintenance_wake(void);

/* Memory is scarce in the system: gives all back that is free. Outside of the gate. */
void sa_maintenance_relieve(void);

struct sa_maintenance_stats {
    uint64_t passes;
    uint64_t steady_bytes;    /* given back because of the release rate */
    uint64_t pressures;       /* times of pressure */
    uint64_t pressure_bytes;  /* given back because of it */
    uint64_t requested_bytes; /* given back because the program asked for it */
};

/* sa_maintenance_release for the program. */
unsigned long sa_maintenance_release_requested(unsigned long bytes);

void sa_maintenance_stats(struct sa_maintenance_stats *ret);

/* Asks for the cache topology and splits the transfer cache by it: domains in use, or a negative
 * errno. Not from inside the gate; see sa_topology_discover. */
int sa_maintenance_topology(void);

#endif
