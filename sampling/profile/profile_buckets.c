/* SPDX-License-Identifier: Apache-2.0 */
/* The table of profile buckets (profile_buckets.h). It grows by doubling. Its index is at most half
 * full. */
#include "sampling/profile/profile_buckets.h"

#include "alloc/base/bits.h"
#include "alloc/base/fatal.h"
#include "alloc/base/rng.h"
#include "alloc/os/vm.h"

#include <string.h>

#define BUCKETS_MIN 256

static size_t buckets_bytes(size_t cap)
{
    return sa_align_up(cap * (sizeof(struct sa_bucket) + 2 * sizeof(uint32_t)),
                       sa_max(sa_vm.page_bytes, 4096));
}

static uint64_t buckets_hash(const struct sa_bucket_key *key)
{
    const uint64_t *words = (const uint64_t *)key;
    uint64_t hash = 0;

    for (size_t i = 0; i < sizeof(*key) / 8; i++)
        hash = sa_rng_mix(hash ^ words[i]);
    return hash;
}

/* Returns the index entry of a key: that of its bucket, or the empty one where it belongs. */
static uint32_t *buckets_entry(const struct sa_buckets *buckets, const struct sa_bucket_key *key)
{
    size_t mask = 2 * buckets->cap - 1, at = buckets_hash(key) & mask;

    while (buckets->index[at] &&
           memcmp(&buckets->buckets[buckets->index[at] - 1].key, key, sizeof(*key)) != 0)
        at = (at + 1) & mask;
    return &buckets->index[at];
}

/* Doubles the table. False: no memory, or SA_BUCKETS_MAX buckets. */
static bool buckets_grow(struct sa_buckets *buckets)
{
    size_t cap = buckets->cap ? 2 * buckets->cap : BUCKETS_MIN;
    struct sa_buckets more = {.count = buckets->count,
                              .cap = cap,
                              .bytes = buckets_bytes(cap),
                              .dropped = buckets->dropped};

    if (cap > SA_BUCKETS_MAX)
        return false;
    more.buckets = sa_vm_map(NULL, more.bytes, "salloc:profile");
    if (!more.buckets)
        return false;
    more.index = (uint32_t *)(more.buckets + cap);
    if (buckets->count)
        memcpy(more.buckets, buckets->buckets, buckets->count * sizeof(*buckets->buckets));
    for (size_t i = 0; i < buckets->count; i++)
        *buckets_entry(&more, &more.buckets[i].key) = (uint32_t)i + 1;
    if (buckets->cap)
        sa_vm_unmap(buckets->buckets, buckets->bytes);
    *buckets = more;
    return true;
}

struct sa_bucket *sa_buckets_find(struct sa_buckets *buckets, const struct sa_bucket_key *key)
{
    struct sa_bucket *bucket;
    uint32_t *entry;

    SA_DCHECK(key->stack && key->p > 0 && key->p <= 1);
    SA_DCHECK(buckets->count <= buckets->cap && !(buckets->cap & (buckets->cap - 1)));
    SA_DCHECK(!buckets->cap || buckets->index); /* not trimmed */
    if (buckets->cap) {
        entry = buckets_entry(buckets, key);
        if (*entry)
            return &buckets->buckets[*entry - 1];
    }
    if (buckets->count == buckets->cap && !buckets_grow(buckets)) {
        buckets->dropped++;
        return NULL;
    }
    entry = buckets_entry(buckets, key);
    bucket = &buckets->buckets[buckets->count++];
    *entry = (uint32_t)buckets->count;
    bucket->key = *key;
    sa_stack_ref(key->stack);
    if (key->free_stack)
        sa_stack_ref(key->free_stack);
    return bucket;
}

void sa_buckets_trim(struct sa_buckets *buckets)
{
    size_t used =
        sa_align_up(buckets->count * sizeof(*buckets->buckets), sa_max(sa_vm.page_bytes, 4096));

    if (buckets->count && used < buckets->bytes) {
        sa_vm_unmap((char *)buckets->buckets + used, buckets->bytes - used);
        buckets->bytes = used;
        buckets->index = NULL;
    }
}

SA_ONCE void sa_buckets_free(struct sa_buckets *buckets)
{
    for (size_t i = 0; i < buckets->count; i++) {
        sa_stack_unref(buckets->buckets[i].key.stack);
        if (buckets->buckets[i].key.free_stack)
            sa_stack_unref(buckets->buckets[i].key.free_stack);
    }
    if (buckets->cap)
        sa_vm_unmap(buckets->buckets, buckets->bytes);
    *buckets = (struct sa_buckets){0};
}
