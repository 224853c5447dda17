/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Housekeeping by elapsed time, run by whichever slow path comes by: returning free memory to the
 * system, emptying idle caches, moving budget. There is no thread for it.
 */
#ifndef SA_FRONT_MAINTAIN_H
#define SA_FRONT_MAINTAIN_H

#include <stdbool.h>
#include <stddef.h>

/* Called inside the gate, with no lock held, at the end of slow paths. Cheap when nothing is due. */
void sa_maintain_poll(void);

/* Empties all caches and gives free memory back; at least bytes if there is as much. What it gave. */
unsigned long sa_maintain_release(unsigned long bytes);

/* After an allocation has failed at the hard limit: empties the caches and gives all free memory back. What it gave. */
size_t sa_maintain_make_room(void);

/*
 * After an allocation has failed: empties the caches and gives all free memory back, so that runs of
 * pages become as long as they can, and unmaps some of it if that is what may be missing (for the
 * allocator's own records).
 */
void sa_maintain_recover(bool unmap);

/* Asks for the cache topology and splits the transfer cache by it: domains in use, or a negative
 * errno. Not from inside the gate; see sa_topology_discover. */
int sa_maintain_topology(void);

#endif
