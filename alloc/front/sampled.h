/* SPDX-License-Identifier: Apache-2.0 */
/* Begin and end of sampled blocks of size classes: between the sampler and the layers that their
 * objects come from. Both functions are called inside the gate. */
#ifndef SA_FRONT_SAMPLED_H
#define SA_FRONT_SAMPLED_H

#include "sampling/sampler/sampler.h"

/*
 * Makes a sampled block in place of `object`, for which the sampling decision was won.
 * The block gets the first `content` bytes of the object. Returns NULL if there is no memory: the
 * caller then uses the object as if it had not been sampled.
 */
void *sa_sampled_begin(const struct sa_sampling_decision *trial, unsigned cls, void *object,
                       size_t content, size_t size, size_t align);

/* Frees a sampled block, and gives its object back. */
void sa_sampled_end(struct sa_span *span);

#endif
