/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The choice of guarded samples; see choice.h. A filter of small counters, two for each stack, tells how often
 * it was chosen lately: after n times the next one is let through with probability 2^-n. With each choice some of the
 * counters are halved, in turn, so that what was long ago does not matter.
 */
#include "sampling/choice.h"

#include "alloc/base/atomic.h"
#include "alloc/base/bits.h"
#include "alloc/base/rng.h"

#define COUNTERS 1024
#define HALVED   16 /* counters, at each choice: each one after 64 choices */
#define MOST     16

static struct {
    uint64_t every; /* const after init */
    uint64_t rng;   /* atomic; the rest too, relaxed, with updates that may be lost */
    uint64_t since; /* samples since the last choice */
    uint64_t chosen, skipped;
    uint64_t last, last_kept; /* times */
    uint32_t hand;
    uint8_t counters[COUNTERS];
} choice;

void sa_choice_init(uint64_t every, uint64_t seed)
{
    choice.every = every;
    choice.rng = sa_rng_mix(seed);
    /* Anywhere in the first round, so that of many processes that end early some have a choice. */
    choice.since = every > 1 ? sa_rng_next(&choice.rng) % every : 0;
}

static void choice_fade(void)
{
    uint32_t at = sa_add_relaxed(&choice.hand, HALVED);

    for (uint32_t i = 0; i < HALVED; i++) {
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

    if (sa_rng_next(&choice.rng) & ((1ull << n) - 1))
        return false;
    if (n < MOST) {
        sa_store_relaxed(a, (uint8_t)(sa_load_relaxed(a) + 1));
        if (b != a)
            sa_store_relaxed(b, (uint8_t)(sa_load_relaxed(b) + 1));
    }
    choice_fade();
    return true;
}

/* Whether enough time has passed since the last one. */
static bool choice_is_time(const uint64_t *last, uint64_t now, uint64_t least)
{
    uint64_t before = sa_load_relaxed(last);

    return !before || now - before >= least;
}

bool sa_choice_make(const struct sa_stack *stack, uint64_t now_ns)
{
    uint64_t since;

    if (choice.every > 1) {
        since = sa_load_relaxed(&choice.since) + 1;
        sa_store_relaxed(&choice.since, since);
        if (since < choice.every)
            return false;
        if (!choice_is_time(&choice.last, now_ns, SA_CHOICE_NS) || !choice_filter(stack->hash)) {
            sa_count_add(&choice.skipped, 1);
            return false; /* the next sample, perhaps */
        }
        sa_store_relaxed(&choice.last, now_ns);
        sa_store_relaxed(&choice.since, 0);
    }
    if (choice.every)
        sa_count_add(&choice.chosen, 1);
    return choice.every != 0;
}

bool sa_choice_keep(uint64_t now_ns)
{
    if (!choice_is_time(&choice.last_kept, now_ns, SA_CHOICE_KEEP_NS))
        return false;
    sa_store_relaxed(&choice.last_kept, now_ns);
    return true;
}

void sa_choice_stats(struct sa_choice_stats *ret)
{
    ret->every = choice.every;
    ret->chosen = sa_load_relaxed(&choice.chosen);
    ret->skipped = sa_load_relaxed(&choice.skipped);
}
