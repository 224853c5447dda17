/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The checks of the hardened modes on objects of size classes, and on the slack of large blocks.
 * They run between the caches, which hand objects out and take them back, and the program. An error
 * ends the program with a line that names the block.
 *
 * A block belongs to its caller: nothing here is shared but the quarantine, which has locks of its
 * own.
 */
#ifndef SA_HARDENING_HARDENED_H
#define SA_HARDENING_HARDENED_H

#include "alloc/base/canary.h"
#include "alloc/base/hardening.h"
#include "alloc/base/thread_safety.h"

#include <stdbool.h>
#include <stddef.h>

/* Checks that an object from the caches is as it was left when it was freed. */
void sa_hardened_check_free(void *object, unsigned cls);

/* Makes an object, or the pages of a sampled block, a block in use: writes slack and canary. */
void sa_hardened_begin(void *object, unsigned cls, size_t size, unsigned origin);

/* Gives a block in use another size and origin. */
void sa_hardened_change(void *block, unsigned cls, size_t size, unsigned origin);

/* The bytes of a block in use. If it is none, or if its canary or slack was written, the program
 * ends with a message that begins with `what`. Requires canaries. */
size_t sa_hardened_size(const void *block, unsigned cls, const char *what);

/* How the block was allocated (alloc/base/origin.h). Requires canaries. */
unsigned sa_hardened_origin(const void *block, unsigned cls);

/* The bytes of a block, without checks. 0: it is not in use. Requires canaries. */
size_t sa_hardened_size_if_used(const void *block, unsigned cls);

/* Ends a block, which sa_hardened_size has just checked, and fills it with junk if that is on. */
void sa_hardened_end(void *block, unsigned cls);

/* Puts an object into the quarantine, and frees objects that leave it. Without a quarantine it
 * frees the object. Called inside the gate. */
void sa_hardened_free(void *object, unsigned cls) SA_INSIDE_GATE;

/* The same for a large block that is inaccessible. False: the block still belongs to the caller. */
bool sa_hardened_quarantine_large(void *block) SA_INSIDE_GATE;

/* Large blocks with an exact size (sa_large_is_exact). arm fills the bytes between the block's end
 * and that of its pages, check checks them. bytes: those up to the end of the pages. */
void sa_hardened_arm_large(void *block, size_t size, size_t bytes);
void sa_hardened_check_large(const void *block, size_t size, size_t bytes);

/* Look for the first byte of a free object, or of the slack of a block in use of `size` bytes, that
 * was written. NULL: there is none. They report nothing. Any thread may call them for an object of
 * any owner, and takes the result for a hint. */
const void *sa_hardened_junk_damage(const void *object, unsigned cls);
const void *sa_hardened_slack_damage(const void *block, unsigned cls, size_t size);

/* Report what was found, as a free or a reuse of the block would, and end the program. */
SA_NORETURN SA_COLD void sa_hardened_say_written(const void *object, unsigned cls,
                                                 const void *where);
SA_NORETURN SA_COLD void sa_hardened_say_broken(const void *block, unsigned cls);

/* Frees everything in the quarantine. Called inside the gate. */
void sa_hardened_flush(void) SA_INSIDE_GATE;

#endif
