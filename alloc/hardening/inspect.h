/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hardened: a look at all blocks, for what was written beside those in use and into those that were
 * freed; where only samples are hardened, at guarded ones. It is found when they are freed or used
 * again; of others it would never be.
 *
 * Maintenance looks at some of the heap in each pass, and the process at all of it when it exits,
 * as far as the time goes that each has. Whatever is found ends the program with a line that names
 * the block.
 */
#ifndef SA_HARDENING_INSPECT_H
#define SA_HARDENING_INSPECT_H

#include "alloc/os/lock.h"

/* Goes on where the last one has stopped. Inside of the gate. */
void sa_inspect_some(void) SA_REQUIRES(SA_RANK_MAINTAIN);

/* Enters the gate. For the end of a process. */
void sa_inspect_all(void);

#endif
