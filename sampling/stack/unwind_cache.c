/* SPDX-License-Identifier: Apache-2.0 */
/* Computes the rules that the cache lacks, and grows the cache (unwind_cache.h). */
#include "sampling/stack/unwind_cache.h"

#include "alloc/base/fatal.h"
#include "sampling/stack/unwind.h"

#ifdef SA_UNWIND_FAST

#include "sampling/stack/unwind_cfi.h"

#define CACHE_MIN 256 /* entries in use at first: one page */

struct sa_unwind_cached sa_unwind_cache[1 << SA_UNWIND_CACHE_BITS] __attribute__((aligned(4096)));
uint32_t sa_unwind_cache_mask = CACHE_MIN - 1;
static uint32_t replaced_count; /* since the last growth; atomic, relaxed, updates may be lost */

/* Counts an entry that is replaced. Once 1/4 of the entries in use were, their number doubles. */
static void cache_replace(void)
{
    uint32_t replaced = sa_load_relaxed(&replaced_count) + 1;
    uint32_t mask = sa_load_relaxed(&sa_unwind_cache_mask);

    if (replaced > mask / 4 && mask < (1u << SA_UNWIND_CACHE_BITS) - 1) {
        sa_store_relaxed(&sa_unwind_cache_mask, 2 * mask + 1);
        replaced = 0;
    }
    sa_store_relaxed(&replaced_count, replaced);
}

/* An object without an identity is known by the bytes of the address's frame description. */
uint64_t sa_unwind_make_rule(const struct sa_unwind_object *o, uintptr_t address,
                             struct sa_unwind_cached *entry, uint64_t rule)
{
    uint64_t identity = o->identity;

    if (!identity) {
        identity = sa_unwind_object_fde_identity(o, address);
        if (identity && sa_unwind_is_cached(entry, rule, address + identity))
            return rule;
    }
    if (rule)
        cache_replace();
    rule = sa_unwind_rule(o, address);
    SA_DCHECK(rule != 0);
    if (identity) {
        sa_store_relaxed(&entry->check, (address + identity) ^ sa_rng_mix(rule));
        sa_store_relaxed(&entry->rule, rule);
    }
    return rule;
}

#endif
