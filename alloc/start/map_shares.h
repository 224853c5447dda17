/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The number of mappings that each use of inaccessible pages may take. Together they take at most
 * half of what the kernel permits (vm.max_map_count); the rest belongs to the program. An
 * inaccessible page, or run of pages, takes two mappings.
 *
 * Unless an option asks for more, the library takes at most 920 mappings, and does not read the
 * kernel's limit. No state: the maxima are those of the modules that use the mappings.
 */
#ifndef SA_START_MAP_SHARES_H
#define SA_START_MAP_SHARES_H

#include <stddef.h>

/* Reads the kernel's limit, and sets the maxima of the quarantine and of the guards of large
 * blocks. Lowers *slots (of guarded blocks) as needed; *quarantined (bytes in the sample
 * quarantine) becomes 0 where the limit is too low. Called before the first allocation. */
void sa_map_shares(size_t *slots, size_t *quarantined);

#endif
