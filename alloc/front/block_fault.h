/* SPDX-License-Identifier: Apache-2.0 */
/* The error message for a pointer that is not the start of a block in use. No state. */
#ifndef SA_FRONT_BLOCK_FAULT_H
#define SA_FRONT_BLOCK_FAULT_H

#include "alloc/base/attrs.h"

/* Ends the program with a message about p. The page of p has no size class, and no large or sampled
 * block in use begins at p. The message says what is known about the memory there. `what`: the
 * error, as for sa_fatal. */
SA_NORETURN SA_COLD void sa_block_fault(const void *p, const char *what);

#endif
