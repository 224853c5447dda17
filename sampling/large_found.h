/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inaccessible pages of large blocks in the hardened modes: those that follow a block in use, and those of blocks in
 * quarantine. No lock and nothing of its own: what the map and the spans say at the moment.
 */
#ifndef SA_SAMPLING_LARGE_FOUND_H
#define SA_SAMPLING_LARGE_FOUND_H

#include "sampling/history.h"

#include <stdbool.h>
#include <stdint.h>

/* What is known of an address in such a page. For signal handlers too. */
bool sa_large_found(uintptr_t address, struct sa_found *ret);

#endif
