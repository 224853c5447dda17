/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cache of rules by address, shared by all threads and signal handlers. It has no lock. An
 * entry is two words, {tag ^ mix(rule), rule}, read and written separately. The tag is the code
 * address plus the identity of its object, which is 64 mixed bits. A reader that sees the halves of
 * two writes, {t1 ^ mix(r1), r2}, accepts them only if t1 ^ mix(r1) ^ mix(r2) is the tag it looks
 * for: if r1 = r2 then it is t1, whose rule that is; else only by an accident of 64 mixed bits, as
 * for two tags that are equal. An object that is unloaded takes no entry away; one that comes to
 * its place has another identity (unwind_object.h). Of the cache so much is used as the program
 * needs: it begins with a page and doubles when entries have had to make way, which loses half of
 * them.
 */
#ifndef SA_SAMPLING_STACK_UNWIND_CACHE_H
#define SA_SAMPLING_STACK_UNWIND_CACHE_H

#include "alloc/base/atomic.h"
#include "alloc/base/attrs.h"
#include "alloc/base/rng.h"
#include "sampling/stack/unwind_object.h"

#include <stdbool.h>
#include <stdint.h>

#define SA_UNWIND_CACHE_BITS 13 /* entries of 16 bytes at most */

struct sa_unwind_cached {
    uint64_t check, rule; /* atomic */
};

extern struct sa_unwind_cached sa_unwind_cache[1 << SA_UNWIND_CACHE_BITS] SA_HIDDEN;
extern uint32_t sa_unwind_cache_mask SA_HIDDEN; /* atomic, relaxed: of the entries in use */

SA_INLINE bool sa_unwind_is_cached(const struct sa_unwind_cached *entry, uint64_t rule,
                                   uint64_t tag)
{
    return rule && (sa_load_relaxed(&entry->check) ^ sa_rng_mix(rule)) == tag;
}

/* Makes the rule that the entry, which had `rule`, does not have as far as that can be told without
 * looking. */
uint64_t sa_unwind_make_rule(const struct sa_unwind_object *object, uintptr_t address,
                             struct sa_unwind_cached *entry, uint64_t rule);

/* Of an address in an object. */
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
