/* SPDX-License-Identifier: Apache-2.0 */
/* The error message for a pointer that is not the start of a block in use. */
#ifndef SA_FRONT_BLOCK_FAULT_H
#define SA_FRONT_BLOCK_FAULT_H

#include "alloc/base/attrs.h"

/* Ends the program with a message about p, a pointer to a page without a size class, where no large
 * or sampled block begins. The message says what is known about the memory there. `what`: as for
 * sa_fatal. */
SA_NORETURN SA_COLD void sa_block_fault(const void *p, const char *what);

#endif
