/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mark at the end of an object of a class, in the hardened modes: the last 8 bytes tell whether
 * the object is a block in use, and of how many bytes, or free, or was never a block. Who does not
 * know the keys cannot make one. A block in use has a pattern between its end and the mark (the
 * slack), a free object is full of junk.
 *
 *   in use:  bits 46..63 bytes asked for, bits 40..45 the origin, bits 1..39 a keyed hash of
 *            address, bytes and origin, bit 0 set
 *   free:    a hash of the address with another key
 *   fresh:   the same with a third one; the rest of the object holds anything
 *
 * The lowest byte of a mark in use is never zero, so that the terminator of a string that is one
 * byte too long changes it. The hash is a mixer, not a cipher: it holds off who can write, not who
 * has read many marks.
 *
 * A mark belongs to who owns the object. Reading one that may change is a guess, nothing else.
 */
#ifndef SA_BASE_CANARY_H
#define SA_BASE_CANARY_H

#include <stdbool.h>
#include <stddef.h>

#define SA_CANARY_BYTES 8
#define SA_SLACK_MAX                                                                               \
    256 /* bytes of slack that are filled: an overflow begins in the first of them */

enum sa_mark { SA_CANARY_USED, SA_CANARY_FREE, SA_CANARY_FRESH, SA_CANARY_BROKEN };

/* Of an object of `bytes` bytes. *ret_size is set for SA_CANARY_USED only. */
enum sa_mark sa_canary_read(const void *object, size_t bytes, size_t *ret_size);

/* The origin (alloc/base/origin.h) of a block in use, which is not checked. */
unsigned sa_canary_origin(const void *object, size_t bytes);

/* Makes it a block of size bytes, with its slack. Alignments up to 32 KiB have a place in a
 * mark. */
void sa_canary_use(void *object, size_t bytes, size_t size, unsigned origin);

/* Makes a block a free object in one step; what it was before. */
enum sa_mark sa_canary_free(void *object, size_t bytes);

void sa_canary_fresh(void *object, size_t bytes);

/* What lies between the end of a block and what ends it. The first byte that was written, or
 * NULL. */
void sa_slack_fill(void *start, size_t bytes);
const void *sa_slack_damage(const void *start, size_t bytes);

/* Of free objects; start and bytes are multiples of 8. */
void sa_junk_fill(void *start, size_t bytes);
const void *sa_junk_damage(const void *start, size_t bytes);

/* Of new blocks. */
void sa_junk_fill_new(void *start, size_t bytes);

#endif
