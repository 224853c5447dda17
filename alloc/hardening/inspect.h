/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Heap inspection (hardened): finds bytes that were written behind blocks in use or into freed
 * ones. With hardening:sampled it looks at guarded blocks only. Frees and reuses find the same
 * errors, but not in blocks that are never freed or reused.
 *
 * Each maintenance pass inspects a part of the heap, and exit inspects all of it. Both have a time
 * limit. An error ends the program with a line that names the block.
 */
#ifndef SA_HARDENING_INSPECT_H
#define SA_HARDENING_INSPECT_H

#include "alloc/os/lock.h"

/* Inspects a part of the heap, from where the last call stopped. Called inside the gate. In a
 * signal handler that has interrupted a slow path it does nothing. */
void sa_inspect_some(void) SA_INSIDE_GATE SA_REQUIRES(SA_RANK_MAINTAIN);

/* Inspects the whole heap at the end of a process. Enters the gate. If exit was called inside of
 * the gate it does nothing. */
void sa_inspect_all(void);

#endif
