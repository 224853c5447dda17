/* SPDX-License-Identifier: Apache-2.0 */
/* How much free memory the allocator keeps by itself, at the program's request. */
#ifndef SA_MAINTAIN_KEEP_H
#define SA_MAINTAIN_KEEP_H

#include "alloc/fork/fork_gate.h"

#include <stddef.h>

/*
 * Sets how many bytes of free memory the ordinary heap keeps: sa_limits_keep. SIZE_MAX: all, and no
 * memory that was touched is released. The allocator then takes the memory for its own records and
 * for the first samples at once, so that a program that has touched a reserve and freed it
 * allocates without page faults.
 */
void sa_keep_set(size_t bytes) SA_INSIDE_GATE;

#endif
