/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shares of the mappings that inaccessible pages may take: together half of what the kernel allows
 * (vm.max_map_count), as the rest is the program's. A page or a run of pages takes two.
 *
 * Without options that ask for many, the library takes at most 920 mappings and need not know what
 * the kernel allows.
 */
#ifndef SA_FRONT_MAP_SHARES_H
#define SA_FRONT_MAP_SHARES_H

#include <stddef.h>

/* Before the first allocation. Reads the kernel's bound, and sets those of the quarantine and of
 * guards of large blocks. *slots of guarded blocks and *kept bytes of samples may become less. */
void sa_map_shares(size_t *slots, size_t *kept);

#endif
