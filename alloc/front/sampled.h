/* SPDX-License-Identifier: Apache-2.0 */
/* Sampled blocks of size classes, between the sampler and the layers that their objects come
 * from. */
#ifndef SA_FRONT_SAMPLED_H
#define SA_FRONT_SAMPLED_H

#include "sampling/sampler/sampler.h"

/*
 * Makes a sampled block in place of an object, which was popped when the trial was won, with the
 * first `content` bytes of it. NULL: there is no memory; the object is to be used as if it had not
 * been sampled. Inside of the gate.
 */
void *sa_sampled_begin(const struct sa_sampling_decision *trial, unsigned cls, void *object,
                       size_t content, size_t size, size_t align);

/* Ends a sampled block. Inside of the gate. */
void sa_sampled_end(struct sa_span *span);

#endif
