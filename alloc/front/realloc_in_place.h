/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks that grow: a block of tens of kilobytes or more that realloc lengthens does so in place
 * where it can. A buffer that is appended to would otherwise be copied from class to class, and
 * leave a warm block of each behind.
 */
#ifndef SA_FRONT_REALLOC_IN_PLACE_H
#define SA_FRONT_REALLOC_IN_PLACE_H

#include "alloc/front/block.h"

/* The block p, whose content is kept, with room for size bytes, which is more than it has. NULL: it
 * is as it was, and has to be moved as any other. Inside the gate. */
void *sa_realloc_in_place(const struct sa_block *b, void *p, size_t size);

#endif
