/* SPDX-License-Identifier: Apache-2.0 */
/* Last-level-cache domains, from hwloc. */
#ifndef SA_MIDDLE_TOPOLOGY_H
#define SA_MIDDLE_TOPOLOGY_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Whether the machine can have several domains at all, from one small file of the kernel's. No
 * libc call that allocates.
 */
bool sa_topology_may_matter(void);

/*
 * Loads hwloc, asks it, and passes what it says of each CPU on if there are several domains.
 * Allocates and takes the loader's lock: no lock may be held, and not from inside the gate; what is
 * called must enter it. Domains in use, or a negative errno.
 */
typedef void sa_topology_apply(const uint8_t *domain_of, unsigned cpus, unsigned domains);
int sa_topology_discover(sa_topology_apply *apply);

/* In a child of fork: the thread that was asking does not exist any more. */
void sa_topology_after_fork(void);

#endif
