/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cache of the fast unwinder: code address → rule for leaving a frame there. All threads and
 * signal handlers share it, without a lock.
 *
 * An entry is two words, {tag ^ mix(rule), rule}, which are read and written separately. The tag is
 * the code address plus the identity of its object, which is 64 mixed bits. A reader that sees the
 * halves of two writes, {t1 ^ mix(r1), r2}, accepts them only if t1 ^ mix(r1) ^ mix(r2) is the tag
 * that it looks for. If r1 = r2 that tag is t1, and r2 is its rule. Otherwise 64 mixed bits would
 * have to agree by chance, as for two equal tags.
 *
 * Unloading an object removes no entry. An object that is loaded in its place has another identity
 * (unwind_object.h).
 *
 * The cache uses one page at first. It doubles when 1/4 of its entries were replaced. Doubling
 * moves no entry, so half of the entries are lost.
 */
#ifndef SA_SAMPLING_STACK_UNWIND_CACHE_H
#define SA_SAMPLING_STACK_UNWIND_CACHE_H

#include "alloc/base/atomic.h"
#include "alloc/base/attrs.h"
#include "alloc/base/rng.h"
#include "sampling/stack/unwind_object.h"

#include <stdbool.h>
#include <stdint.h>

#define SA_UNWIND_CACHE_BITS 13 /* up to 8192 entries of 16 bytes */

struct sa_unwind_cached {
    uint64_t check; /* tag ^ mix(rule); atomic, relaxed */
    uint64_t rule;  /* 0: empty; atomic, relaxed */
};

extern struct sa_unwind_cached sa_unwind_cache[1 << SA_UNWIND_CACHE_BITS] SA_HIDDEN;
extern uint32_t sa_unwind_cache_mask SA_HIDDEN; /* entries in use minus 1; atomic, relaxed */

/* Returns whether `rule`, which the caller has read from the entry, is that of the tag. */
SA_INLINE bool sa_unwind_is_cached(const struct sa_unwind_cached *entry, uint64_t rule,
                                   uint64_t tag)
{
    return rule && (sa_load_relaxed(&entry->check) ^ sa_rng_mix(rule)) == tag;
}

/*
 * Returns the rule of an address in the object, and stores it in the entry. `rule` is the one that
 * the caller has read from the entry. It is returned if the object has no identity and the bytes of
 * its frame description show that it is right.
 */
uint64_t sa_unwind_make_rule(const struct sa_unwind_object *object, uintptr_t address,
                             struct sa_unwind_cached *entry, uint64_t rule);

/* Returns the rule of an address in the object, from the cache if the cache has it. */
SA_INLINE uint64_t sa_unwind_rule_of(const struct sa_unwind_object *object, uintptr_t address)
{
    struct sa_unwind_cached *entry =
        &sa_unwind_cache[(unsigned)(address * SA_RNG_STEP >> (64 - SA_UNWIND_CACHE_BITS)) &
                         sa_load_relaxed(&sa_unwind_cache_mask)];
    uint64_t rule = sa_load_relaxed(&entry->rule);

    if (SA_LIKELY(object->identity && sa_unwind_is_cached(entry, rule, address + object->identity)))
        return rule;
    return sa_unwind_make_rule(object, address, entry, rule);
}

#endif
