/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watched blocks; see watched.h. State: a bucket of tokens, and a counter for each place in the
 * program that allocates. All of it is atomic, relaxed: an update that is lost does no harm.
 */
#include "alloc/hardening/watched.h"

#include "alloc/base/bits.h"
#include "alloc/base/token_bucket.h"
#include "alloc/base/fatal.h"
#include "alloc/base/hardening.h"
#include "alloc/base/page.h"
#include "alloc/base/rng.h"
#include "alloc/cpu_cache/cpu_cache.h"
#include "alloc/fork/fork_gate.h"
#include "alloc/os/clock.h"
#include "alloc/os/thread.h"
#include "sampling/guard/fault_handler.h"
#include "sampling/guard/guarded.h"
#include "sampling/sampler/sampler.h"

/*
 * A watched block of up to a page costs about 10 us, most of it for two changes of protection and
 * two page faults: one in a millisecond is 1 % of a processor. The first ones take 2.5 ms. Larger
 * blocks count for a token in each LARGE_BYTES more.
 */
#define TOKENS_MAX 256
#define TOKEN_NS   1000000ull

/*
 * The last of the tokens are for blocks of places that have had few of late: an error is more
 * likely where a program seldom comes by than in the loop that allocates most. Of other blocks the
 * one that gets a token is drawn once fewer are left than this: not always the first one after a
 * pause.
 */
#define TOKENS_RARE (TOKENS_MAX / 2)
#define TOKENS_FEW  (TOKENS_MAX * 3 / 4)
#define FEW_ONE_IN  8

#define SITES      4096 /* counters */
#define SITE_FIRST 4    /* watched blocks of each */
#define SITES_FADED                                                                                \
    16 /* counters that are halved when the bucket is refilled: all within 2.6 s                   \
        */

/* Slots for blocks of no bytes: address space, and a record for each that is used. */
#define ZERO_SLOTS 4096

static struct {
    struct sa_token_bucket bucket;
    uint32_t hand; /* the next counter to be halved */
    uint8_t sites[SITES];
} watched;

void sa_watched_init(void)
{
    watched.bucket = (struct sa_token_bucket){
        .tokens = TOKENS_MAX, .most = TOKENS_MAX, .ns_of_a_token = TOKEN_NS};
    sa_guarded_init_zero(ZERO_SLOTS);
}

static void watched_refill(void)
{
    uint64_t before = sa_load_relaxed(&watched.bucket.filled_ns);
    uint32_t at;

    sa_bucket_refill(&watched.bucket, sa_clock_coarse_ns());
    if (SA_LIKELY(before == sa_load_relaxed(&watched.bucket.filled_ns)))
        return;
    at = sa_add_relaxed(&watched.hand, SITES_FADED);
    for (uint32_t i = 0; i < SITES_FADED; i++) {
        uint8_t *c = &watched.sites[(at + i) % SITES];

        sa_store_relaxed(c, (uint8_t)(sa_load_relaxed(c) / 2));
    }
}

/*
 * The counter of the place that allocates: told by the depth of the stack and, where that is at a
 * known place, the address that the call returns to. A stack as a whole would cost more than the
 * block.
 */
static uint8_t *watched_site(void)
{
    const uintptr_t *frame = sa_thread.caller;
    uint64_t told = (uintptr_t)frame;

#ifdef __x86_64__
    if (frame)
        told ^= (uint64_t)frame[-1] << 20;
#endif
    return &watched.sites[sa_rng_mix(told) % SITES];
}

/* Whether the next block of the size is one. */
static bool watched_due(size_t size)
{
    uint8_t *site, count;
    int64_t tokens;

    if (!sa_hardening.watch || size > SA_MID_MAX)
        return false;
    if (!size)
        return true;
    watched_refill();
    tokens = sa_load_relaxed(&watched.bucket.tokens);
    if (tokens <= 0)
        return false;
    site = watched_site();
    count = sa_load_relaxed(site);
    if (count < SITE_FIRST) {
        sa_store_relaxed(site, (uint8_t)(count + 1));
        return true;
    }
    return tokens >= TOKENS_FEW ||
           (tokens >= TOKENS_RARE && sa_rng_next(&sa_hardening.rng) % FEW_ONE_IN == 0);
}

static void *watched_begin(unsigned cls, void *object, size_t size, size_t align)
{
    enum salloc_guarded_status status;
    struct sa_stack *stack;
    struct sa_span *span;

    SA_DCHECK(sa_thread.gate_depth);
    if (!sa_fault_may_report())
        return NULL;
    if (size)
        sa_bucket_take(&watched.bucket, size);
    sa_fault_prepare();
    stack = sa_sampler_stack();
    if (!stack)
        return NULL;
    span = sa_guarded_alloc(size, align, cls, stack, &status);
    sa_stack_unref(stack);
    if (!span)
        return NULL;
    span->origin = sa_caller_origin(align);
    sa_guarded_set_object(span, object);
    return (void *)sa_guarded_start(span);
}

void *sa_watched_try(unsigned cls, void *object, size_t size, size_t align)
{
    void *p;

    SA_DCHECK(cls && object);
    if (!watched_due(size) || !sa_fork_gate_enter())
        return NULL;
    p = watched_begin(cls, object, size, align);
    sa_fork_gate_leave();
    return p;
}

bool sa_watched_end(struct sa_span *span)
{
    void *object;
    unsigned cls;

    SA_DCHECK(sa_thread.gate_depth && sa_guarded_span(span));
    object = sa_guarded_object(span);
    if (!object)
        return false;
    cls = sa_guarded_class(span);
    if (!sa_guarded_claim(span))
        sa_fatal("double free", (void *)span->start, "is being freed by another thread");
    sa_guarded_set_object(span, NULL);
    sa_guarded_free(span, sa_sampler_stack());
    sa_cpu_cache_free(cls, object);
    return true;
}
