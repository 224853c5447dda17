/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Heap inspection (hardened): finds bytes that were written behind blocks in use or into freed
 * ones. With hardening:sampled it looks at guarded blocks only. Free and reuse find the same
 * errors, but not in blocks that are never freed or reused.
 *
 * Each maintenance pass inspects a part of the heap, and the process inspects all of it at exit;
 * both have a time limit. An error ends the program with a line that names the block.
 */
#ifndef SA_HARDENING_INSPECT_H
#define SA_HARDENING_INSPECT_H

#include "alloc/os/lock.h"

/* Inspects a part of the heap, from where the last call stopped. Inside the gate. */
void sa_inspect_some(void) SA_REQUIRES(SA_RANK_MAINTAIN);

/* Inspects the whole heap at the end of a process. Enters the gate. */
void sa_inspect_all(void);

#endif
