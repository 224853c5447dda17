/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watched blocks; see watched.h. State: a bucket of tokens, one for each block. It is full at
 * first, and fills up at a pace. All of it is atomic, relaxed: a token more or less does no harm.
 */
#include "alloc/hardening/watched.h"

#include "alloc/base/bits.h"
#include "alloc/base/fatal.h"
#include "alloc/base/hardening.h"
#include "alloc/base/page.h"
#include "alloc/base/rng.h"
#include "alloc/cpu_cache/cpu_cache.h"
#include "alloc/fork/fork_gate.h"
#include "alloc/os/clock.h"
#include "sampling/guard/fault_handler.h"
#include "sampling/guard/guarded.h"
#include "sampling/sampler/sampler.h"

/*
 * A watched block of up to a page costs about 10 us, most of it for two changes of protection and
 * two page faults: one in a millisecond is 1 % of a processor. The first ones take 2.5 ms. Larger
 * blocks count for a token in each LARGE_BYTES more.
 */
#define TOKENS_MAX  256
#define TOKEN_NS    1000000ull
#define REFILL_NS   10000000ull
#define LARGE_BYTES 16384

/* While there are fewer tokens than this, the block that gets one is drawn: not always the first
 * one after a pause. */
#define TOKENS_FEW (TOKENS_MAX / 4)
#define FEW_ONE_IN 8

/* Slots for blocks of no bytes: address space, and a record for each that is used. */
#define ZERO_SLOTS 4096

static struct {
    int64_t tokens;
    uint64_t filled_ns;
} watched;

void sa_watched_init(void)
{
    watched.tokens = TOKENS_MAX;
    sa_guarded_init_zero(ZERO_SLOTS);
}

static void watched_refill(void)
{
    uint64_t now = sa_clock_coarse_ns(), before = sa_load_relaxed(&watched.filled_ns);
    int64_t tokens = sa_load_relaxed(&watched.tokens);

    if (now - before < REFILL_NS || !sa_cas_acquire(&watched.filled_ns, &before, now))
        return;
    if (!before)
        return;
    tokens += (int64_t)sa_min((now - before) / TOKEN_NS, TOKENS_MAX);
    sa_store_relaxed(&watched.tokens, sa_min(tokens, TOKENS_MAX));
}

/* Whether the next block of the size is one. */
static bool watched_due(size_t size)
{
    int64_t tokens;

    if (!sa_hardening.watch || size > SA_MID_MAX)
        return false;
    if (!size)
        return true;
    watched_refill();
    tokens = sa_load_relaxed(&watched.tokens);
    return tokens > 0 && (tokens >= TOKENS_FEW || sa_rng_next(&sa_hardening.rng) % FEW_ONE_IN == 0);
}

static void *watched_begin(unsigned cls, void *object, size_t size, size_t align)
{
    enum salloc_guarded_status status;
    struct sa_stack *stack;
    struct sa_span *span;

    if (!sa_fault_may_report())
        return NULL;
    if (size)
        sa_sub_relaxed(&watched.tokens, (int64_t)(1 + size / LARGE_BYTES));
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

    if (!sa_guarded_span(span))
        return false;
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
