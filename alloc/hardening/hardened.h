/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The checks of the hardened modes, on objects of classes: between the caches, which hand them out
 * and take them back, and the program. Whatever is wrong ends the program with a line that names
 * the block.
 *
 * A block belongs to its caller: nothing here is shared but the quarantine.
 */
#ifndef SA_HARDENING_HARDENED_H
#define SA_HARDENING_HARDENED_H

#include "alloc/base/canary.h"
#include "alloc/base/hardening.h"

#include <stdbool.h>
#include <stddef.h>

/* An object that comes from the caches: it must be as it was left. */
void sa_hardened_check_free(void *object, unsigned cls);

/* Makes an object, or pages of the sampler's, a block. */
void sa_hardened_begin(void *object, unsigned cls, size_t size, unsigned origin);

/* Gives a block in use another size. */
void sa_hardened_change(void *block, unsigned cls, size_t size, unsigned origin);

/* Bytes of a block in use. `what` is wrong if it is none. */
size_t sa_hardened_size(const void *block, unsigned cls, const char *what);

/* How it was allocated (alloc/base/origin.h), if there are marks. */
unsigned sa_hardened_origin(const void *block, unsigned cls);

/* The bytes without a message: 0 if it is none. */
size_t sa_hardened_size_if_used(const void *block, unsigned cls);

/* Ends a block: its content is gone. It was just looked at by sa_hardened_size. */
void sa_hardened_end(void *block, unsigned cls);

/* Puts what was a block into the quarantine, and gives others back for it. Inside of the gate. */
void sa_hardened_free(void *object, unsigned cls);

/* The same for a large block that is inaccessible; false: it is the caller's. */
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

/* Gives back all that is in the quarantine. Inside of the gate. */
void sa_hardened_flush(void);

#endif
