/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sampler, seen from the front end: trials of blocks that no countdown tries, and what happens
 * to a block that is sampled.
 *
 * A sampled object of a size class gets page(s) of its own in the sampled address window, or is
 * guarded (sampling/guard/guarded.h). The object that was popped for it is its proxy, or goes back
 * to its cache (enum sa_proxy). A sampled large block stays where it is. Either way the block's
 * span points to its record. Pages of sampled blocks that were freed may stay inaccessible for a
 * while (sampling/guard/sample_quarantine.h).
 *
 * No lock may be held by the caller. Nothing is sampled that the sampler itself causes to be
 * allocated.
 */
#ifndef SA_SAMPLING_SAMPLER_SAMPLER_H
#define SA_SAMPLING_SAMPLER_SAMPLER_H

#include "pagemap/span.h"
#include "sampling/estimate/rates.h"
#include "sampling/stack/block_history.h"

#include <stdbool.h>

/* Whether an allocation is to be sampled, and how likely it was. */
struct sa_sampling_decision {
    bool won;
    struct sa_rate rate;
    size_t bytes; /* of a large block: what it counts for, if it is sampled */
};

/*
 * What becomes of the object that was popped for a sampled block. The fragmentation profile asks
 * how full the span is that the block would lie on. So where spans have several objects, the place
 * has to be known as long as the block lives.
 */
enum sa_proxy {
    SA_PROXY_HELD, /* stays allocated on its span: no more than a page, or many blocks are sampled
                    */
    SA_PROXY_LENT, /* others use it, but its span is pinned (sa_central_pin) */
    SA_PROXY_NONE, /* it has its span to itself: nothing would be learned */
};

struct sa_sampler_stats {
    uint64_t taken;  /* samples ever */
    uint64_t failed; /* trials won, but not recorded: no page or no record to be had */
};

/* Before the first allocation. seed: of all random draws. */
void sa_sampler_init(int64_t interval, uint64_t seed);

/* In a child of fork: its random draws are its own. number: of the fork, another one for each child
 * of the process. */
void sa_sampler_after_fork(uint64_t number);

/* A generator's state of its own for each number: those below SA_SLABS are the slabs'. */
uint64_t sa_sampler_stream(unsigned number);

/* One trial by itself. */
bool sa_sampler_try(const struct sa_rate *rate);

/* The same for a block without a class. */
void sa_sampler_try_large(size_t bytes, struct sa_sampling_decision *ret);

enum sa_proxy sa_sampler_proxy(unsigned cls, const struct sa_rate *rate);

/*
 * A sampled block in place of an object of a class, popped when its trial was won; or NULL if there
 * is no memory for it: then the object is to be used as if not sampled. Unless the object is held,
 * it is the caller's in either case. requested and align: what the program asked for.
 */
void *sa_sampler_take(const struct sa_sampling_decision *trial, unsigned cls, void *object,
                      enum sa_proxy proxy, size_t requested, size_t align);

/* Records a large block whose trial was won. */
void sa_sampler_take_large(const struct sa_sampling_decision *trial, struct sa_span *span,
                           size_t requested, size_t align);

/* The record of a block that realloc leaves where it is, with as many pages, if it has one: the
 * size is another one. */
void sa_sampler_set_requested(struct sa_span *span, size_t requested);

/*
 * Frees a sampled object of a class: ends its record, and gives its page back or keeps it. What is
 * left for the caller to end: the class, and the proxy with its kind.
 */
enum sa_proxy sa_sampler_free(struct sa_span *span, unsigned *ret_cls, void **ret_proxy);

/* Sampled blocks of a class in use for which no object of the class is held. */
size_t sa_sampler_apart(unsigned cls);

/* Ends the record of a large block that stays in use; its span has none afterwards. */
void sa_sampler_release_large(struct sa_span *span);

/* The same for one that is freed. True: its span is kept for a while, and not the caller's any
 * more. empty: its pages hold no memory. */
bool sa_sampler_keep_large(struct sa_span *span, bool empty);

/* Of a span in use: its sample's class, 0 if it is not a sampled object of a class. */
unsigned sa_sampler_class(const struct sa_span *span);

/* The stack that called the allocator, with a reference; NULL inside of the sampler. */
struct sa_stack *sa_sampler_stack(void);

void sa_sampler_stats(struct sa_sampler_stats *ret);

#endif
