/* SPDX-License-Identifier: Apache-2.0 */
/* The domains of CPUs that share a last-level cache, from hwloc. At most one thread asks at a
 * time. */
#ifndef SA_MIDDLE_TOPOLOGY_H
#define SA_MIDDLE_TOPOLOGY_H

#include "alloc/base/thread_safety.h"

#include <stdbool.h>
#include <stdint.h>

/* True if the machine may have several domains, according to two small files of the kernel. Calls
 * nothing of libc that allocates. */
bool sa_topology_may_matter(void);

/*
 * Loads hwloc, asks it, and if there are several domains calls `apply` with the domain of each CPU.
 * Returns the number of domains in use, or a negative errno. While another thread asks, it returns
 * the domains in use now.
 *
 * It allocates and takes the loader's lock: the caller holds no lock and is outside the gate.
 * `apply` must enter the gate.
 */
typedef void sa_topology_apply(const uint8_t *domain_of, unsigned cpus, unsigned domains);
int sa_topology_discover(sa_topology_apply *apply) SA_OUTSIDE_GATE;

/* In a child of fork: the thread that was asking does not exist any more. */
void sa_topology_after_fork(void);

#endif
