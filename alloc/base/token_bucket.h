/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A token bucket, which bounds the cost of guarded blocks. A block takes one token, and one more
 * for each SA_BUCKET_BYTES (16 KiB). The bucket is full at first, and is refilled at a fixed rate,
 * at most every SA_BUCKET_REFILL_NS (10 ms). The number of tokens may become negative: refills pay
 * off the debt.
 *
 * Any thread may call the functions; there is no lock. All fields are atomic and relaxed. The
 * thread that advances filled_ns adds the tokens of that interval. A token more or less does no
 * harm.
 */
#ifndef SA_BASE_TOKEN_BUCKET_H
#define SA_BASE_TOKEN_BUCKET_H

#include "alloc/base/atomic.h"
#include "alloc/base/bits.h"

#include <stdint.h>

#define SA_BUCKET_REFILL_NS 10000000ull
#define SA_BUCKET_BYTES     16384 /* bytes of a block that cost another token */

struct sa_token_bucket {
    /* Left; below 0: debt. */
    int64_t tokens;
    uint64_t filled_ns;     /* when tokens were added last; 0: never */
    int64_t max;            /* capacity; constant after the bucket's initialization */
    uint64_t ns_of_a_token; /* nanoseconds in which one token is added; constant likewise */
};

/* Adds the tokens of the time since the last refill. The first call only notes the time. */
SA_INLINE void sa_bucket_refill(struct sa_token_bucket *b, uint64_t now_ns)
{
    uint64_t before = sa_load_relaxed(&b->filled_ns);
    int64_t tokens = sa_load_relaxed(&b->tokens);

    /* Signed: the time of a thread that read the clock before the last refill is earlier. */
    if ((int64_t)(now_ns - before) < (int64_t)SA_BUCKET_REFILL_NS ||
        !sa_cas_acquire(&b->filled_ns, &before, now_ns) || !before)
        return;
    tokens += (int64_t)((now_ns - before) / b->ns_of_a_token); /* a debt is reduced first */
    /* sa_min is for unsigned values */
    sa_store_relaxed(&b->tokens, tokens < b->max ? tokens : b->max);
}

/* Takes the tokens of a block. */
SA_INLINE void sa_bucket_take(struct sa_token_bucket *b, size_t bytes)
{
    sa_sub_relaxed(&b->tokens, (int64_t)(1 + bytes / SA_BUCKET_BYTES));
}

#endif
