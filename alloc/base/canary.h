/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Canaries of the hardened modes: the last 8 bytes of an object of a size class. A canary tells
 * whether the object is a block in use, and of which size, or is free, or was never a block. A
 * canary cannot be forged without the keys. In a block in use, the slack (the bytes between the
 * block's end and the canary) holds a pattern. A free object is filled with junk.
 *
 *   in use:  bits 46..63 requested bytes, bits 40..45 the origin, bits 1..39 a keyed hash of
 *            address, bytes and origin, bit 0 set
 *   free:    a hash of the address with a second key
 *   fresh:   a hash of the address with a third key; the rest of the object holds anything
 *
 * The lowest byte of a canary in use is never 0. The terminator of a string that is one byte too
 * long therefore changes the canary. The hash is a mixer and not a cipher: it stops an attacker who
 * can write, but not one who has read many canaries.
 *
 * A canary belongs to the owner of the object, who alone writes it. An inspection reads canaries of
 * other threads' objects; it takes the result for a hint and checks it again
 * (alloc/hardening/inspect.c).
 */
#ifndef SA_BASE_CANARY_H
#define SA_BASE_CANARY_H

#include <stdbool.h>
#include <stddef.h>

#define SA_CANARY_BYTES 8

/* Bytes of slack that are filled and checked: an overflow begins in the first of them. */
#define SA_SLACK_MAX 256

enum sa_canary { SA_CANARY_USED, SA_CANARY_FREE, SA_CANARY_FRESH, SA_CANARY_BROKEN };

/* Reads the canary of an object of `bytes` bytes. *ret_size receives the requested bytes, and only
 * for SA_CANARY_USED. */
enum sa_canary sa_canary_read(const void *object, size_t bytes, size_t *ret_size);

/* The origin (alloc/base/origin.h) that the canary of a block in use holds. The canary is not
 * checked. */
unsigned sa_canary_origin(const void *object, size_t bytes);

/* Makes an object a block in use of `size` bytes: fills the slack, then writes the canary. A canary
 * has room for alignments up to 32 KiB. */
void sa_canary_use(void *object, size_t bytes, size_t size, unsigned origin);

/* Makes a block a free object, in one atomic exchange. Returns the kind that the canary had before,
 * so that of two threads that free the block one learns of the error. */
enum sa_canary sa_canary_free(void *object, size_t bytes);

/* Makes an object fresh: it was never a block. */
void sa_canary_fresh(void *object, size_t bytes);

/* Slack: fills it with the pattern, or returns its first byte that does not hold the pattern (NULL:
 * none). Both look at the first SA_SLACK_MAX bytes only. */
void sa_slack_fill(void *start, size_t bytes);
const void *sa_slack_damage(const void *start, size_t bytes);

/* Junk of free objects, likewise. `start` and `bytes` are multiples of 8. */
void sa_junk_fill(void *start, size_t bytes);
const void *sa_junk_damage(const void *start, size_t bytes);

/* Fills a new block with junk of another value, for the option that does so at allocation. */
void sa_junk_fill_new(void *start, size_t bytes);

#endif
