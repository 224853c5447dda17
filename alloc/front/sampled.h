/* SPDX-License-Identifier: Apache-2.0 */
/* Begin and end of sampled blocks of size classes: connects the sampler and the layers that the
 * objects come from. Both functions are called inside the gate. No state. */
#ifndef SA_FRONT_SAMPLED_H
#define SA_FRONT_SAMPLED_H

#include "alloc/base/thread_safety.h"
#include "sampling/sampler/sampler.h"

/*
 * Makes a sampled block in place of `object`, for which the sampling decision `trial` succeeded.
 * The block gets the first `content` bytes of the object. NULL: there is no memory, and the caller
 * uses the object as if it were not sampled.
 */
void *sa_sampled_begin(const struct sa_sampling_decision *decision, unsigned cls, void *object,
                       size_t content, size_t size, size_t align) SA_INSIDE_GATE;

/* Frees a sampled block, and gives its object back. */
void sa_sampled_end(struct sa_span *span) SA_INSIDE_GATE;

#endif
