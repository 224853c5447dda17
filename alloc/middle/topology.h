/* SPDX-License-Identifier: Apache-2.0 */
/* Last-level-cache domains, from hwloc. */
#ifndef SA_MIDDLE_TOPOLOGY_H
#define SA_MIDDLE_TOPOLOGY_H

#include <stdbool.h>

/*
 * Whether the machine can have several domains at all, from one small file of the kernel's. No
 * libc call that allocates.
 */
bool sa_topology_may_matter(void);

/*
 * Loads hwloc, asks it, and splits the transfer cache. Allocates and takes the loader's lock: no
 * lock may be held, and not from inside the gate. Domains in use, or a negative errno.
 */
int sa_topology_discover(void);

#endif
