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
static uint32_t *buckets_entry(const struct sa_buckets *rows, const struct sa_bucket_key *key)
{
    size_t mask = 2 * rows->cap - 1, at = buckets_hash(key) & mask;

    while (rows->index[at] && memcmp(&rows->rows[rows->index[at] - 1].key, key, sizeof(*key)) != 0)
        at = (at + 1) & mask;
    return &rows->index[at];
}

/* Doubles the table. False: no memory, or SA_BUCKETS_MAX buckets. */
static bool buckets_grow(struct sa_buckets *rows)
{
    size_t cap = rows->cap ? 2 * rows->cap : BUCKETS_MIN;
    struct sa_buckets more = {
        .count = rows->count, .cap = cap, .bytes = buckets_bytes(cap), .dropped = rows->dropped};

    if (cap > SA_BUCKETS_MAX)
        return false;
    more.rows = sa_vm_map(NULL, more.bytes, "salloc:profile");
    if (!more.rows)
        return false;
    more.index = (uint32_t *)(more.rows + cap);
    if (rows->count)
        memcpy(more.rows, rows->rows, rows->count * sizeof(*rows->rows));
    for (size_t i = 0; i < rows->count; i++)
        *buckets_entry(&more, &more.rows[i].key) = (uint32_t)i + 1;
    if (rows->cap)
        sa_vm_unmap(rows->rows, rows->bytes);
    *rows = more;
    return true;
}

struct sa_bucket *sa_buckets_find(struct sa_buckets *rows, const struct sa_bucket_key *key)
{
    struct sa_bucket *row;
    uint32_t *entry;

    SA_DCHECK(key->stack && key->p > 0 && key->p <= 1);
    SA_DCHECK(rows->count <= rows->cap && !(rows->cap & (rows->cap - 1)));
    SA_DCHECK(!rows->cap || rows->index); /* not trimmed */
    if (rows->cap) {
        entry = buckets_entry(rows, key);
        if (*entry)
            return &rows->rows[*entry - 1];
    }
    if (rows->count == rows->cap && !buckets_grow(rows)) {
        rows->dropped++;
        return NULL;
    }
    entry = buckets_entry(rows, key);
    row = &rows->rows[rows->count++];
    *entry = (uint32_t)rows->count;
    row->key = *key;
    sa_stack_ref(key->stack);
    if (key->free_stack)
        sa_stack_ref(key->free_stack);
    return row;
}

void sa_buckets_trim(struct sa_buckets *rows)
{
    size_t used = sa_align_up(rows->count * sizeof(*rows->rows), sa_max(sa_vm.page_bytes, 4096));

    if (rows->count && used < rows->bytes) {
        sa_vm_unmap((char *)rows->rows + used, rows->bytes - used);
        rows->bytes = used;
        rows->index = NULL;
    }
}

SA_ONCE void sa_buckets_free(struct sa_buckets *rows)
{
    for (size_t i = 0; i < rows->count; i++) {
        sa_stack_unref(rows->rows[i].key.stack);
        if (rows->rows[i].key.free_stack)
            sa_stack_unref(rows->rows[i].key.free_stack);
    }
    if (rows->cap)
        sa_vm_unmap(rows->rows, rows->bytes);
    *rows = (struct sa_buckets){0};
}
