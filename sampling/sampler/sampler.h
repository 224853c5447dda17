/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sampler, as the front end sees it: sampling decisions for blocks without a countdown, and the
 * life of sampled blocks.
 *
 * A sampled object of a size class gets pages of its own in the sampled address window, or is
 * guarded (sampling/guard/guarded.h). The object that was popped for it is its proxy, or goes back
 * to its cache; some blocks need none (enum sa_proxy). A sampled large block stays where it is. In
 * either case the span of the block points to its record. Pages of freed samples may enter the
 * sample quarantine (sampling/guard/sample_quarantine.h).
 *
 * All functions may be called from any thread; the caller holds no lock. Allocations that the
 * sampler itself causes are never sampled.
 */
#ifndef SA_SAMPLING_SAMPLER_SAMPLER_H
#define SA_SAMPLING_SAMPLER_SAMPLER_H

#include "alloc/os/clock.h"
#include "pagemap/span.h"
#include "sampling/estimate/rates.h"
#include "sampling/stack/block_history.h"

#include <stdbool.h>

/* A sampling decision: whether an allocation is sampled, and the rate that decided. */
struct sa_sampling_decision {
    bool sampled;
    struct sa_rate rate;
    size_t bytes;    /* of a large block: the bytes that it counts as, if it is sampled */
    uint64_t now_ns; /* sa_sampling_now; 0: not read yet */
};

/* The coarse clock as the allocation of this decision read it first. Several parts of a slow path
 * ask for the time, and one reading serves them all. */
SA_INLINE uint64_t sa_sampling_now(struct sa_sampling_decision *decision)
{
    if (!decision->now_ns)
        decision->now_ns = sa_clock_coarse_ns();
    return decision->now_ns;
}

/*
 * The use of the object that was popped for a sampled block. The fragmentation profile shows how
 * full the span is on which the block would lie. Where spans have several objects, that place must
 * be known while the block lives.
 */
enum sa_proxy {
    SA_PROXY_HELD, /* the object stays allocated: it is at most a page, or many blocks are sampled
                    */
    SA_PROXY_LENT, /* other blocks use the object, but its span is pinned (sa_central_pin) */
    SA_PROXY_NONE, /* the object has a span to itself: the profile would learn nothing */
};

struct sa_sampler_stats {
    uint64_t taken;  /* samples since the start */
    uint64_t failed; /* successful decisions without a sample, for lack of a page or a record */
};

/* Initialises the sampler, before the first allocation. interval: mean bytes between sampled bytes.
 * seed: of all random draws. */
void sa_sampler_init(int64_t interval, uint64_t seed);

/* In a child of fork: seeds the random draws anew. number: of the fork; it differs between the
 * children of a process. */
void sa_sampler_after_fork(uint64_t number);

/* The initial state of the random generator `number`. Numbers below SA_SLABS belong to the slabs.
 */
uint64_t sa_sampler_stream(unsigned number);

/* Draws one sampling decision. */
bool sa_sampler_try(const struct sa_rate *rate);

/* The same for a block without a size class. */
void sa_sampler_try_large(size_t bytes, struct sa_sampling_decision *ret);

/* The use of the popped object for a sampled block of a class. */
enum sa_proxy sa_sampler_proxy(unsigned cls, const struct sa_rate *rate);

/*
 * Returns a sampled block in place of `object`, which was popped when the sampling decision
 * succeeded. NULL: there is no memory for the sample, or this thread is inside the sampler. The
 * caller then uses the object as if it were not sampled. A held object (proxy) belongs to the
 * sample; otherwise it stays the caller's. SA_PROXY_NONE needs no object. requested and align: as
 * the program asked.
 */
void *sa_sampler_take(struct sa_sampling_decision *decision, unsigned cls, void *object,
                      enum sa_proxy proxy, size_t requested, size_t align);

/* Records a large block whose sampling decision succeeded. Without memory the block stays
 * unsampled. */
void sa_sampler_take_large(const struct sa_sampling_decision *decision, struct sa_span *span,
                           size_t requested, size_t align);

/* Changes the requested bytes of a block that realloc leaves in place with the same pages, if the
 * block is sampled. */
void sa_sampler_set_requested(struct sa_span *span, size_t requested);

/*
 * Frees a sampled object of a class: ends its record, and returns its pages or puts them into the
 * sample quarantine. The caller then ends the proxy, of which this returns the kind, the class and
 * the object. A second free of the block aborts.
 */
enum sa_proxy sa_sampler_free(struct sa_span *span, unsigned *ret_cls, void **ret_proxy);

/* The number of sampled blocks of a class in use that hold no object of the class. */
size_t sa_sampler_apart(unsigned cls);

/* Ends the record of a large block that stays in use. Its span has no sample afterwards. */
void sa_sampler_release_large(struct sa_span *span);

/* The same for a block that is freed. True: its span has entered the sample quarantine, and belongs
 * to it. unbacked: the pages hold no memory. */
bool sa_sampler_quarantine_large(struct sa_span *span, bool unbacked);

/* The class of the sampled object on a span in use; 0: the span has no sampled object of a class.
 */
unsigned sa_sampler_class(const struct sa_span *span);

/* Captures the stack that called the allocator. The caller owns the reference. NULL: this thread is
 * inside the sampler. */
struct sa_stack *sa_sampler_stack(void);

void sa_sampler_stats(struct sa_sampler_stats *ret);

#endif
