/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watched blocks; see watched.h. State: a bucket of tokens, and a counter for each place in the
 * program that allocates. Any thread changes them, without a lock. All are atomic and relaxed: a
 * lost update does no harm.
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
#include "alloc/os/vm.h"
#include "sampling/guard/fault_handler.h"
#include "sampling/guard/guarded.h"
#include "sampling/sampler/sampler.h"

/*
 * A watched block of up to a page takes about 10 us, most of it for two changes of protection and
 * two page faults. One such block in a millisecond is 1 % of a CPU. The first TOKENS_MAX blocks
 * take 2.5 ms. A longer block takes one more token for each SA_BUCKET_BYTES.
 */
#define TOKENS_MAX 256
/* One token is added per millisecond. */
#define TOKEN_NS 1000000ull
#define STEP_NS  100 /* for an allocation, where time is counted in steps */

/*
 * The last TOKENS_RARE tokens are reserved for blocks of places with few recent blocks: an error is
 * more likely in code that runs seldom than in the loop that allocates most. Below TOKENS_FEW, one
 * block in FEW_ONE_IN of the other places gets a token at random, so that not always the first
 * block after a pause is watched.
 */
#define TOKENS_RARE (TOKENS_MAX / 2)
#define TOKENS_FEW  (TOKENS_MAX * 3 / 4)
#define FEW_ONE_IN  8

#define SITES      4096 /* counters of places */
#define SITE_FIRST 4    /* blocks of a place that are watched without a draw */
/* Counters that are halved when tokens are added. All counters are halved within 2.6 s. */
#define SITES_FADED 16

/* Slots for blocks of 0 bytes: address space, and a record for each slot that was used. */
#define ZERO_SLOTS 4096

static struct {
    struct sa_token_bucket bucket;
    uint32_t hand; /* the next counter to be halved; atomic, relaxed */
    /* Watched blocks of a place; decays; atomic, relaxed. */
    uint8_t sites[SITES];
} watched;

void sa_watched_init(void)
{
    watched.bucket = (struct sa_token_bucket){
        .tokens = TOKENS_MAX, .max = TOKENS_MAX, .ns_of_a_token = TOKEN_NS};
    sa_guarded_init_zero(ZERO_SLOTS);
}

/* Refills the bucket, and halves some counters when tokens were added. */
static void watched_refill(void)
{
    uint64_t before = sa_load_relaxed(&watched.bucket.filled_ns);
    uint32_t at;

    sa_bucket_refill(&watched.bucket, sa_vm_policy_ns(sa_clock_coarse_ns(), STEP_NS));
    if (SA_LIKELY(before == sa_load_relaxed(&watched.bucket.filled_ns)))
        return;
    at = sa_add_relaxed(&watched.hand, SITES_FADED);
    for (uint32_t i = 0; i < SITES_FADED; i++) {
        uint8_t *c = &watched.sites[(at + i) % SITES];

        sa_store_relaxed(c, (uint8_t)(sa_load_relaxed(c) / 2));
    }
}

/*
 * The counter of the place that allocates. The place is told by the depth of the stack and, where
 * the return address is at a known place, by that address. To capture the whole stack would cost
 * more than the block.
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

/* True if the next block of this size is watched. */
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

/* Makes a watched block, inside the gate. */
static void *watched_begin(unsigned cls, void *object, size_t size, size_t align) SA_INSIDE_GATE
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
