/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watched blocks (hardened): guarded blocks (sampling/guard/guarded.h) in addition to the sampled
 * ones. At first every block is watched. Later, the first blocks of each place that allocates are
 * watched, and others at random. A budget bounds the cost. A short program is therefore watched
 * completely, and each block of a long one with some probability. Blocks of 0 bytes are always
 * watched.
 *
 * A watched block has no sample, so that profiles do not contain it. An object of its class stands
 * for it: the cache hands that object out at allocation, and gets it back when the block is freed.
 */
#ifndef SA_HARDENING_WATCHED_H
#define SA_HARDENING_WATCHED_H

#include "alloc/base/thread_safety.h"
#include "pagemap/span.h"

#include <stdbool.h>
#include <stddef.h>

/* Turns watching on. Called before the first allocation. */
void sa_watched_init(void);

/* Returns a watched block in place of an object of the class, which then stands for it. NULL: the
 * object is not watched. Enters the gate. */
void *sa_watched_try(unsigned cls, void *object, size_t size, size_t align);

/* Ends a guarded block if it is a watched one. False: it has a sample. Called inside the gate. */
bool sa_watched_end(struct sa_span *span) SA_INSIDE_GATE;

#endif
