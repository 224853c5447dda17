/* SPDX-License-Identifier: Apache-2.0 */
/* Canaries, slack and junk; see canary.h. The only state is the keys in sa_hardening, which are
 * constant. */
#include "alloc/base/canary.h"

#include "alloc/base/atomic.h"
#include "alloc/base/bits.h"
#include "alloc/base/fatal.h"
#include "alloc/base/hardening.h"
#include "alloc/base/origin.h"
#include "alloc/base/page.h"
#include "alloc/base/rng.h"

#include <string.h>

#define SIZE_SHIFT   46
#define ORIGIN_SHIFT 40 /* 2 bits of the family, above 4 bits of the alignment's logarithm */
#define HASH_MASK    ((1ull << ORIGIN_SHIFT) - 1)

#define SLACK    0xcb
#define JUNK_NEW 0xa5
/* Eight of these bytes are a non-canonical address: an access through such a pointer faults. */
#define JUNK_FREE 0xdb

#define REPEAT(byte) ((byte)*0x0101010101010101ull)

SA_STATIC_ASSERT(SA_MID_MAX - SA_CANARY_BYTES < 1ul << (64 - SIZE_SHIFT), "sizes fit a canary");

/* The place of an object's canary. */
static uint64_t *canary_of(const void *object, size_t bytes)
{
    SA_DCHECK(bytes >= SA_CANARY_BYTES && (uintptr_t)object % 8 == 0 && bytes % 8 == 0);
    return (uint64_t *)((uintptr_t)object + bytes - SA_CANARY_BYTES);
}

/* The hash of kind 0 (in use), 1 (free) or 2 (fresh). It mixes twice, with a key each: one mixing
 * step can be inverted, so the input could be computed from the output. told: size and origin. */
static uint64_t canary_hash(const uint64_t *canary, unsigned kind, uint64_t told)
{
    uint64_t where = (uintptr_t)canary ^ told << ORIGIN_SHIFT;

    return sa_rng_mix(sa_rng_mix(where ^ sa_hardening.key[kind]) +
                      sa_hardening.key[(kind + 1) % 3]);
}

/* The canary of a block in use. told: size and origin, as they stand in bits 40 and above. */
static uint64_t canary_used(const uint64_t *canary, uint64_t told)
{
    return told << ORIGIN_SHIFT | (canary_hash(canary, 0, told) & HASH_MASK) | 1;
}

/* The kind that the value v means at this place. */
static enum sa_canary canary_kind(const uint64_t *canary, uint64_t v)
{
    if (v == canary_used(canary, v >> ORIGIN_SHIFT))
        return SA_CANARY_USED;
    if (v == canary_hash(canary, 1, 0))
        return SA_CANARY_FREE;
    return v == canary_hash(canary, 2, 0) ? SA_CANARY_FRESH : SA_CANARY_BROKEN;
}

enum sa_canary sa_canary_read(const void *object, size_t bytes, size_t *ret_size)
{
    const uint64_t *canary = canary_of(object, bytes);
    uint64_t v = sa_load_relaxed(canary);
    enum sa_canary kind = canary_kind(canary, v);

    if (kind == SA_CANARY_USED)
        *ret_size = v >> SIZE_SHIFT;
    return kind;
}

unsigned sa_canary_origin(const void *object, size_t bytes)
{
    unsigned told = (unsigned)(sa_load_relaxed(canary_of(object, bytes)) >> ORIGIN_SHIFT);

    return (told >> 4 & 3) << SA_ORIGIN_FAMILY | (told & 15);
}

void sa_canary_use(void *object, size_t bytes, size_t size, unsigned origin)
{
    uint64_t *canary = canary_of(object, bytes),
             told = origin >> SA_ORIGIN_FAMILY << 4 | (origin & 15);

    sa_slack_fill((char *)object + size, bytes - SA_CANARY_BYTES - size);
    sa_store_release(canary, canary_used(canary, size << (SIZE_SHIFT - ORIGIN_SHIFT) | told));
}

enum sa_canary sa_canary_free(void *object, size_t bytes)
{
    uint64_t *canary = canary_of(object, bytes);

    return canary_kind(canary, sa_xchg_acquire(canary, canary_hash(canary, 1, 0)));
}

void sa_canary_fresh(void *object, size_t bytes)
{
    uint64_t *canary = canary_of(object, bytes);

    sa_store_relaxed(canary, canary_hash(canary, 2, 0));
}

void sa_slack_fill(void *start, size_t bytes)
{
    memset(start, SLACK, sa_min(bytes, SA_SLACK_MAX));
}

/* Returns the first byte that differs from `byte`; NULL: none. An inspection calls this for blocks
 * that their owners write at the same time, and confirms what it finds by further looks
 * (alloc/hardening/inspect.c). */
SA_RACES static const void *damage(const void *start, size_t bytes, unsigned char byte)
{
    const unsigned char *at = start, *end = at + bytes;
    uint64_t word;

    for (; at + sizeof(word) <= end; at += sizeof(word)) {
        memcpy(&word, at, sizeof(word));
        if (SA_UNLIKELY(word != REPEAT(byte)))
            break;
    }
    for (; at < end; at++)
        if (SA_UNLIKELY(*at != byte))
            return at;
    return NULL;
}

const void *sa_slack_damage(const void *start, size_t bytes)
{
    return damage(start, sa_min(bytes, SA_SLACK_MAX), SLACK);
}

void sa_junk_fill(void *start, size_t bytes)
{
    memset(start, JUNK_FREE, bytes);
}

const void *sa_junk_damage(const void *start, size_t bytes)
{
    return damage(start, bytes, JUNK_FREE);
}

void sa_junk_fill_new(void *start, size_t bytes)
{
    memset(start, JUNK_NEW, bytes);
}
