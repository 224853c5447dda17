/* SPDX-License-Identifier: Apache-2.0 */
/* Begin and end of sampled blocks of size classes: connects the sampler and the layers that the
 * objects come from. All functions are called inside the gate. No state. */
#ifndef SA_FRONT_SAMPLED_H
#define SA_FRONT_SAMPLED_H

#include "alloc/base/hardening.h"
#include "alloc/base/thread_safety.h"
#include "sampling/sampler/sampler.h"

/*
 * Makes a sampled block in place of `object`, for which the sampling decision succeeded. The block
 * gets the first `content` bytes of the object. NULL: there is no memory, and the caller uses the
 * object as if it were not sampled.
 */
void *sa_sampled_begin(struct sa_sampling_decision *decision, unsigned cls, void *object,
                       size_t content, size_t size, size_t align) SA_INSIDE_GATE;

/* The program's block for an object that was popped: a sampled one in its place if the decision
 * says so, as sa_sampled_begin makes it, otherwise the object. */
SA_INLINE void *sa_sampled_or(struct sa_sampling_decision *decision, unsigned cls, void *object,
                              size_t content, size_t size, size_t align) SA_INSIDE_GATE
{
    void *sampled = SA_UNLIKELY(decision->sampled)
                        ? sa_sampled_begin(decision, cls, object, content, size, align)
                        : NULL;

    return sampled ? sampled : object;
}

/* False if a sampled block of the class can begin without an object. Hardened: always true, because
 * the object is checked for writes after its free. */
SA_INLINE bool sa_sampled_needs_object(unsigned cls, const struct sa_sampling_decision *decision)
{
    return sa_sampler_proxy(cls, &decision->rate) != SA_PROXY_NONE || sa_hardening.on;
}

/*
 * Makes a sampled block without an object, if sa_sampled_needs_object is false. The decision was
 * claimed (sa_cpu_cache_claim). Returns NULL if there is no memory: the caller then takes an object
 * and uses it as if it were not sampled.
 */
void *sa_sampled_begin_without(struct sa_sampling_decision *decision, unsigned cls, size_t size,
                               size_t align) SA_INSIDE_GATE;

/* Frees a sampled block, and gives its object back. */
void sa_sampled_end(struct sa_span *span) SA_INSIDE_GATE;

#endif
