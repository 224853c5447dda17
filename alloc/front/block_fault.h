/* SPDX-License-Identifier: Apache-2.0 */
/* What is wrong with a pointer that was passed as the start of a block in use. */
#ifndef SA_FRONT_BLOCK_FAULT_H
#define SA_FRONT_BLOCK_FAULT_H

#include "alloc/base/attrs.h"

/* Of a pointer to no class that is not the start of a large or sampled block: says so, with all
 * that is known of the memory there, and ends the program. what: as sa_fatal. */
SA_NORETURN SA_COLD void sa_block_fault(const void *p, const char *what);

#endif
