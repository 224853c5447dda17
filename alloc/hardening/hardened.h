/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The checks of the hardened modes on objects of size classes. They run between the caches, which
 * hand objects out and take them back, and the program. An error ends the program with a line that
 * names the block.
 *
 * A block belongs to its caller: nothing here is shared but the quarantine.
 */
#ifndef SA_HARDENING_HARDENED_H
#define SA_HARDENING_HARDENED_H

#include "alloc/base/canary.h"
#include "alloc/base/hardening.h"

#include <stdbool.h>
#include <stddef.h>

/* Checks that an object from the caches is as it was left when it was freed. */
void sa_hardened_check_free(void *object, unsigned cls);

/* Makes an object, or the pages of a sampled block, a block in use: canary and slack. */
void sa_hardened_begin(void *object, unsigned cls, size_t size, unsigned origin);

/* Gives a block in use another size. */
void sa_hardened_change(void *block, unsigned cls, size_t size, unsigned origin);

/* Bytes of a block in use. If it is none, or the slack was written, the program ends; `what` begins
 * the message. */
size_t sa_hardened_size(const void *block, unsigned cls, const char *what);

/* How the block was allocated (alloc/base/origin.h). Requires canaries. */
unsigned sa_hardened_origin(const void *block, unsigned cls);

/* Bytes of a block without checks: 0 if it is not in use. */
size_t sa_hardened_size_if_used(const void *block, unsigned cls);

/* Ends a block, which sa_hardened_size has just checked, and fills it with junk if that is on. */
void sa_hardened_end(void *block, unsigned cls);

/* Puts an object into the quarantine, and frees those that leave it. Inside the gate. */
void sa_hardened_free(void *object, unsigned cls);

/* The same for a large block that is inaccessible. False: the block still belongs to the caller. */
bool sa_hardened_keep_large(void *block);

/* Large blocks with an exact size (sa_large_is_exact): what lies between their end and that of
 * their pages. */
void sa_hardened_arm_large(void *block, size_t size, size_t bytes);
void sa_hardened_check_large(const void *block, size_t size, size_t bytes);

/* A look at what lies between the caches and the program, for the first byte that is not as it was
 * left; NULL: none. Nothing is said of it. An object that is free, and a block in use of `size`
 * bytes, of class cls. */
const void *sa_hardened_junk_damage(const void *object, unsigned cls);
const void *sa_hardened_slack_damage(const void *block, unsigned cls, size_t size);

/* Says what was found, as when a block is freed or used again; ends the program. */
SA_NORETURN SA_COLD void sa_hardened_say_written(const void *object, unsigned cls,
                                                 const void *where);
SA_NORETURN SA_COLD void sa_hardened_say_broken(const void *block, unsigned cls);

/* Frees everything in the quarantine. Inside the gate. */
void sa_hardened_flush(void);

#endif
