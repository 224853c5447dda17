/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hardened: guarded blocks (sampling/guard/guarded.h) beside those that are sampled. Every block is
 * guarded in the beginning, and later the first ones of each place that allocates, and others at a
 * random time, as far as a budget goes that bounds what they cost. So a short program is watched as
 * a whole, and each block of a long one with some chance. Blocks of no bytes are guarded always.
 *
 * A watched block has no sample: profiles do not know it. An object of its class stands for it
 * meanwhile, which was popped when it was allocated and is returned when it is freed.
 */
#ifndef SA_HARDENING_WATCHED_H
#define SA_HARDENING_WATCHED_H

#include "pagemap/span.h"

#include <stdbool.h>
#include <stddef.h>

/* Before the first allocation: blocks are watched from now on. */
void sa_watched_init(void);

/* A watched block in place of an object of the class, which then is its; NULL: it is not to be
 * watched. */
void *sa_watched_try(unsigned cls, void *object, size_t size, size_t align);

/* Ends a guarded block if it is a watched one; false: it has a sample. Inside of the gate. */
bool sa_watched_end(struct sa_span *span);

#endif
