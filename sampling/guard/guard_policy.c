/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The guard policy; see guard_policy.h. Each stack has two counters in a filter, found by its hash.
 * The smaller one estimates how often the stack was guarded lately. After n times, the filter lets
 * the stack pass with probability 2^-n. Each guarded sample halves FADED of the counters, in turn,
 * so that old ones are forgotten.
 */
#include "sampling/guard/guard_policy.h"

#include "alloc/base/atomic.h"
#include "alloc/base/bits.h"
#include "alloc/base/fatal.h"
#include "alloc/base/layout.h"
#include "alloc/base/page.h"
#include "alloc/base/rng.h"
#include "alloc/base/token_bucket.h"
#include "alloc/os/vm.h"

#define COUNTERS         1024
#define FADED            16 /* counters halved by a guarded sample: each after 64 of them */
#define FADED_IF_REFUSED 1  /* the same by a stack that the filter refuses */
#define COUNTER_MAX      16 /* not counted further: the stack passes with probability 2^-16 */

static struct {
    uint64_t every; /* const after init: guard one sample in `every`; 0: none */
    /* All below are atomic, relaxed; an update may be lost. */
    uint64_t rng;
    uint64_t since; /* samples since the last guarded one */
    uint64_t selected, skipped;
    /* The earliest times of the next guarded sample, quarantined pages, and guarded large block, in
     * ns; 0: there was no sample yet. */
    uint64_t next, next_quarantined, next_large;
    uint32_t hand;
    uint8_t counters[COUNTERS];
} policy;

/* What reports show. */
SA_LAYOUT = {
    SA_LAYOUT_STATE("guard_policy", policy, every),
    SA_LAYOUT_STATE("guard_policy", policy, selected),
    SA_LAYOUT_STATE("guard_policy", policy, skipped),
};
SA_LAYOUT_STATIC_ADDRESS("guard_policy", policy);

/* The budget of sa_guard_policy_bound. A guarded block costs about 11 us: one in 5 ms is 0.22 % of
 * a processor. */
#define TOKEN_NS 5000000

/* For a sample, where time is counted in steps: about what a program takes that allocates the
 * default sampling interval. */
#define STEP_NS 1000000

/* [0] for blocks with a slot, [1] for larger ones, whose pages cost more when they come back.
 * most == 0: there is no budget. */
static struct sa_token_bucket buckets[2];

SA_COLD void sa_guard_policy_bound(unsigned first)
{
    SA_DCHECK(first);
    for (int i = 0; i < 2; i++)
        buckets[i] =
            (struct sa_token_bucket){.tokens = first, .max = first, .ns_of_a_token = TOKEN_NS};
    policy.next_quarantined = 1; /* now */
}

SA_INLINE void policy_seed(uint64_t seed)
{
    policy.rng = sa_rng_mix(seed);
    /* A random place in the first round: of many processes that end early, some guard a sample. */
    policy.since = policy.every > 1 ? sa_rng_next(&policy.rng) % policy.every : 0;
}

void sa_guard_policy_init(uint64_t every, uint64_t seed)
{
    policy.every = every;
    policy.next = policy.next_quarantined = policy.next_large = 0;
    policy_seed(seed);
    SA_DCHECK(policy.since < sa_max(every, 1));
}

SA_COLD void sa_guard_policy_seed(uint64_t seed)
{
    policy_seed(seed);
}

/* Halves the next `count` counters. */
static void policy_fade(uint32_t count)
{
    uint32_t at = sa_add_relaxed(&policy.hand, count);

    for (uint32_t i = 0; i < count; i++) {
        uint8_t *c = &policy.counters[(at + i) % COUNTERS];

        sa_store_relaxed(c, (uint8_t)(sa_load_relaxed(c) / 2));
    }
}

/* True if the filter lets a stack with this hash pass; the stack is then counted. */
static bool policy_filter(uint64_t hash)
{
    uint64_t mixed = sa_rng_mix(hash);
    uint8_t *a = &policy.counters[mixed % COUNTERS],
            *b = &policy.counters[(mixed >> 32) % COUNTERS];
    unsigned n = sa_min(sa_load_relaxed(a), sa_load_relaxed(b));

    SA_DCHECK(n < 64);
    if (sa_rng_next(&policy.rng) & ((1ull << n) - 1)) {
        policy_fade(FADED_IF_REFUSED);
        return false;
    }
    if (n < COUNTER_MAX) {
        sa_store_relaxed(a, (uint8_t)(sa_load_relaxed(a) + 1));
        if (b != a)
            sa_store_relaxed(b, (uint8_t)(sa_load_relaxed(b) + 1));
    }
    policy_fade(FADED);
    return true;
}

/* True from the time *next on. The first sample starts the pause of SA_GUARD_POLICY_FIRST_NS. */
static bool policy_is_time(uint64_t *next, uint64_t now)
{
    uint64_t at = sa_load_relaxed(next);

    if (SA_UNLIKELY(!at))
        sa_store_relaxed(next, at = now + SA_GUARD_POLICY_FIRST_NS);
    return now >= at;
}

/* The pause after a sample of `bytes`: at least `min` ns. */
static uint64_t policy_pause(uint64_t min, size_t bytes)
{
    return min + sa_min(bytes, SA_GUARD_POLICY_MAX_BYTES) * SA_GUARD_POLICY_BYTE_NS;
}

/* The decision when a budget is set. stack: NULL for the guard of a large block, whose stack is not
 * known yet. */
SA_COLD static enum salloc_guarded_status policy_pay(const struct sa_stack *stack, size_t bytes,
                                                     uint64_t now_ns)
{
    struct sa_token_bucket *bucket = &buckets[!stack || bytes > SA_MID_MAX];
    enum salloc_guarded_status status = SALLOC_GUARDED_REQUESTED;
    int64_t tokens;

    sa_bucket_refill(bucket, now_ns);
    tokens = sa_load_relaxed(&bucket->tokens);
    if (tokens <= 0)
        status = SALLOC_GUARDED_RATE_LIMITED;
    else if (stack && !policy_filter(stack->hash) && tokens < bucket->max / 2)
        status = SALLOC_GUARDED_FILTERED;
    if (status == SALLOC_GUARDED_REQUESTED)
        sa_bucket_take(bucket, sa_min(bytes, SA_GUARD_POLICY_MAX_BYTES));
    sa_count_add(&policy.skipped, status != SALLOC_GUARDED_REQUESTED);
    return status;
}

enum salloc_guarded_status sa_guard_policy_make(const struct sa_stack *stack, size_t bytes,
                                                uint64_t now_ns)
{
    uint64_t since;
    bool turn;

    if (!policy.every)
        return SALLOC_GUARDED_DISABLED;
    now_ns = sa_vm_policy_ns(now_ns, STEP_NS);
    if (SA_UNLIKELY(buckets[0].max != 0)) {
        enum salloc_guarded_status status = policy_pay(stack, bytes, now_ns);

        sa_count_add(&policy.selected, status == SALLOC_GUARDED_REQUESTED);
        return status;
    }
    if (policy.every > 1) {
        since = sa_load_relaxed(&policy.since) + 1;
        sa_store_relaxed(&policy.since, since);
        turn = policy_is_time(&policy.next, now_ns) && since >= policy.every;
        if (!turn || !policy_filter(stack->hash)) {
            sa_count_add(&policy.skipped, since >= policy.every);
            /* `since` stays: the next sample may be guarded. */
            return turn ? SALLOC_GUARDED_FILTERED : SALLOC_GUARDED_RATE_LIMITED;
        }
        sa_store_relaxed(&policy.next, now_ns + policy_pause(SA_GUARD_POLICY_NS, bytes));
        sa_store_relaxed(&policy.since, 0);
    }
    sa_count_add(&policy.selected, 1);
    return SALLOC_GUARDED_REQUESTED;
}

bool sa_guard_policy_quarantine(size_t bytes, uint64_t now_ns)
{
    now_ns = sa_vm_policy_ns(now_ns, STEP_NS);
    if (!policy_is_time(&policy.next_quarantined, now_ns))
        return false;
    sa_store_relaxed(&policy.next_quarantined,
                     now_ns + policy_pause(SA_GUARD_POLICY_QUARANTINE_NS, bytes));
    return true;
}

bool sa_guard_policy_guard_large(uint64_t now_ns)
{
    now_ns = sa_vm_policy_ns(now_ns, STEP_NS);
    if (SA_UNLIKELY(buckets[0].max != 0))
        return policy_pay(NULL, 0, now_ns) == SALLOC_GUARDED_REQUESTED;
    if (policy.every > 1) {
        if (!policy_is_time(&policy.next_large, now_ns))
            return false;
        sa_store_relaxed(&policy.next_large, now_ns + SA_GUARD_POLICY_NS);
    }
    return policy.every != 0;
}

SA_RARE void sa_guard_policy_stats(struct sa_guard_policy_stats *ret)
{
    ret->every = policy.every;
    ret->selected = sa_load_relaxed(&policy.selected);
    ret->skipped = sa_load_relaxed(&policy.skipped);
}
