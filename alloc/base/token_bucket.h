/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A token bucket, which bounds the cost of guarding blocks: a block takes one token, and one more
 * for each SA_BUCKET_BYTES (16 KiB). The bucket is full at first and is refilled at a fixed rate.
 * All fields are atomic and relaxed: a token more or less does no harm.
 */
#ifndef SA_BASE_TOKEN_BUCKET_H
#define SA_BASE_TOKEN_BUCKET_H

#include "alloc/base/atomic.h"
#include "alloc/base/bits.h"

#include <stdint.h>

#define SA_BUCKET_REFILL_NS 10000000ull
#define SA_BUCKET_BYTES     16384 /* a token more for each of a block */

struct sa_token_bucket {
    int64_t tokens;
    uint64_t filled_ns;     /* 0: never */
    int64_t most;           /* const after init */
    uint64_t ns_of_a_token; /* the same */
};

SA_INLINE void sa_bucket_refill(struct sa_token_bucket *b, uint64_t now_ns)
{
    uint64_t before = sa_load_relaxed(&b->filled_ns);
    int64_t tokens = sa_load_relaxed(&b->tokens);

    if (now_ns - before < SA_BUCKET_REFILL_NS || !sa_cas_acquire(&b->filled_ns, &before, now_ns) ||
        !before)
        return;
    tokens += (int64_t)((now_ns - before) / b->ns_of_a_token); /* what is owed counts, too */
    sa_store_relaxed(&b->tokens, tokens < b->most ? tokens : b->most); /* sa_min has no signs */
}

SA_INLINE void sa_bucket_take(struct sa_token_bucket *b, size_t bytes)
{
    sa_sub_relaxed(&b->tokens, (int64_t)(1 + bytes / SA_BUCKET_BYTES));
}

#endif
