/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The choice of guarded samples; see guard_policy.h. A filter of small counters, two for each
 * stack, tells how often it was chosen lately: after n times the next one is let through with
 * probability 2^-n. With each choice some of the counters are halved, in turn, so that what was
 * long ago does not matter.
 */
#include "sampling/guard/guard_policy.h"

#include "alloc/base/atomic.h"
#include "alloc/base/bits.h"
#include "alloc/base/page.h"
#include "alloc/base/rng.h"
#include "alloc/base/token_bucket.h"

#define COUNTERS 1024
#define HALVED   16 /* counters, at each choice: each one after 64 choices */
#define REFUSED  1  /* the same at each stack that is not let through */
#define MOST     16

static struct {
    uint64_t every; /* const after init */
    uint64_t rng;   /* atomic; the rest too, relaxed, with updates that may be lost */
    uint64_t since; /* samples since the last choice */
    uint64_t chosen, skipped;
    /* Times: not before them; 0: there was no sample yet. */
    uint64_t next, next_kept, next_large;
    uint32_t hand;
    uint8_t counters[COUNTERS];
} choice;

/* A guarded block costs about 10 us: one in 2 ms is 0.5 % of a processor, and the first ones cost
 * 1.3 ms. */
#define TOKENS_MAX 128
#define TOKENS_FEW (TOKENS_MAX / 2)
#define TOKEN_NS   2000000

/* Of blocks with a slot, and of larger ones, whose pages cost more when they come back. most 0:
 * there is no budget. */
static struct sa_token_bucket buckets[2];

SA_COLD void sa_guard_policy_bound(void)
{
    for (int i = 0; i < 2; i++)
        buckets[i] = (struct sa_token_bucket){
            .tokens = TOKENS_MAX, .most = TOKENS_MAX, .ns_of_a_token = TOKEN_NS};
    choice.next_kept = 1; /* at once */
}

SA_INLINE void choice_seed(uint64_t seed)
{
    choice.rng = sa_rng_mix(seed);
    /* Anywhere in the first round, so that of many processes that end early some have a choice. */
    choice.since = choice.every > 1 ? sa_rng_next(&choice.rng) % choice.every : 0;
}

void sa_guard_policy_init(uint64_t every, uint64_t seed)
{
    choice.every = every;
    choice.next = choice.next_kept = choice.next_large = 0;
    choice_seed(seed);
}

SA_COLD void sa_guard_policy_seed(uint64_t seed)
{
    choice_seed(seed);
}

static void choice_fade(uint32_t count)
{
    uint32_t at = sa_add_relaxed(&choice.hand, count);

    for (uint32_t i = 0; i < count; i++) {
        uint8_t *c = &choice.counters[(at + i) % COUNTERS];

        sa_store_relaxed(c, (uint8_t)(sa_load_relaxed(c) / 2));
    }
}

/* Whether the stack is let through; counts it then. */
static bool choice_filter(uint64_t hash)
{
    uint64_t mixed = sa_rng_mix(hash);
    uint8_t *a = &choice.counters[mixed % COUNTERS],
            *b = &choice.counters[(mixed >> 32) % COUNTERS];
    unsigned n = sa_min(sa_load_relaxed(a), sa_load_relaxed(b));

    if (sa_rng_next(&choice.rng) & ((1ull << n) - 1)) {
        choice_fade(REFUSED);
        return false;
    }
    if (n < MOST) {
        sa_store_relaxed(a, (uint8_t)(sa_load_relaxed(a) + 1));
        if (b != a)
            sa_store_relaxed(b, (uint8_t)(sa_load_relaxed(b) + 1));
    }
    choice_fade(HALVED);
    return true;
}

/* Whether it is time for the next one; the first sample begins the time in which there is none. */
static bool choice_is_time(uint64_t *next, uint64_t now)
{
    uint64_t at = sa_load_relaxed(next);

    if (SA_UNLIKELY(!at))
        sa_store_relaxed(next, at = now + SA_GUARD_POLICY_FIRST_NS);
    return now >= at;
}

static uint64_t choice_pause(uint64_t least, size_t bytes)
{
    return least + sa_min(bytes, SA_GUARD_POLICY_MAX_BYTES) * SA_GUARD_POLICY_BYTE_NS;
}

/* With a budget. stack NULL: whether a large block gets a guard, before its stack is known. */
SA_COLD static enum salloc_guarded_status choice_pay(const struct sa_stack *stack, size_t bytes,
                                                     uint64_t now_ns)
{
    struct sa_token_bucket *bucket = &buckets[!stack || bytes > SA_MID_MAX];
    enum salloc_guarded_status status = SALLOC_GUARDED_REQUESTED;
    int64_t tokens;

    sa_bucket_refill(bucket, now_ns);
    tokens = sa_load_relaxed(&bucket->tokens);
    if (tokens <= 0)
        status = SALLOC_GUARDED_RATE_LIMITED;
    else if (stack && !choice_filter(stack->hash) && tokens < TOKENS_FEW)
        status = SALLOC_GUARDED_FILTERED;
    if (status == SALLOC_GUARDED_REQUESTED)
        sa_bucket_take(bucket, sa_min(bytes, SA_GUARD_POLICY_MAX_BYTES));
    sa_count_add(&choice.skipped, status != SALLOC_GUARDED_REQUESTED);
    return status;
}

enum salloc_guarded_status sa_guard_policy_make(const struct sa_stack *stack, size_t bytes,
                                                uint64_t now_ns)
{
    uint64_t since;
    bool turn;

    if (!choice.every)
        return SALLOC_GUARDED_DISABLED;
    if (SA_UNLIKELY(buckets[0].most != 0)) {
        enum salloc_guarded_status status = choice_pay(stack, bytes, now_ns);

        sa_count_add(&choice.chosen, status == SALLOC_GUARDED_REQUESTED);
        return status;
    }
    if (choice.every > 1) {
        since = sa_load_relaxed(&choice.since) + 1;
        sa_store_relaxed(&choice.since, since);
        turn = choice_is_time(&choice.next, now_ns) && since >= choice.every;
        if (!turn || !choice_filter(stack->hash)) {
            sa_count_add(&choice.skipped, since >= choice.every);
            /* The next sample, perhaps. */
            return turn ? SALLOC_GUARDED_FILTERED : SALLOC_GUARDED_RATE_LIMITED;
        }
        sa_store_relaxed(&choice.next, now_ns + choice_pause(SA_GUARD_POLICY_NS, bytes));
        sa_store_relaxed(&choice.since, 0);
    }
    sa_count_add(&choice.chosen, 1);
    return SALLOC_GUARDED_REQUESTED;
}

bool sa_guard_policy_keep(size_t bytes, uint64_t now_ns)
{
    if (!choice_is_time(&choice.next_kept, now_ns))
        return false;
    sa_store_relaxed(&choice.next_kept, now_ns + choice_pause(SA_GUARD_POLICY_KEEP_NS, bytes));
    return true;
}

bool sa_guard_policy_guard_large(uint64_t now_ns)
{
    if (SA_UNLIKELY(buckets[0].most != 0))
        return choice_pay(NULL, 0, now_ns) == SALLOC_GUARDED_REQUESTED;
    if (choice.every > 1) {
        if (!choice_is_time(&choice.next_large, now_ns))
            return false;
        sa_store_relaxed(&choice.next_large, now_ns + SA_GUARD_POLICY_NS);
    }
    return choice.every != 0;
}

SA_RARE void sa_guard_policy_stats(struct sa_guard_policy_stats *ret)
{
    ret->every = choice.every;
    ret->chosen = sa_load_relaxed(&choice.chosen);
    ret->skipped = sa_load_relaxed(&choice.skipped);
}
