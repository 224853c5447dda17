/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loaded objects, as the walker needs them: which one has a code address, whether it is still the
 * one that a cached rule was made of, and where its unwind information is. No lock, no memory: all
 * is read from the object itself and from the loader's own index (loaded_object.h).
 *
 * What is on a stack cannot be unloaded while it is there, so the object of a frame stays mapped
 * during the walk.
 */
#ifndef SA_SAMPLING_STACK_UNWIND_OBJECT_H
#define SA_SAMPLING_STACK_UNWIND_OBJECT_H

#include <stdbool.h>
#include <stdint.h>

struct sa_unwind_object {
    uintptr_t start, end;
    uintptr_t bias;          /* added to addresses in the file */
    const uint8_t *eh_index; /* its PT_GNU_EH_FRAME, or NULL */
    /*
     * Made of the address and the build id: an object that is loaded where another one was has the
     * same only if it has the same code. 0: not known.
     */
    uint64_t identity;
    bool permanent; /* known to be never unloaded */
};

enum sa_unwind_found {
    SA_UNWIND_FDE,   /* there is a description */
    SA_UNWIND_NONE,  /* there is none for this address */
    SA_UNWIND_FORMAT /* it cannot be looked up by this code */
};

/* False: no object has this address. */
bool sa_unwind_object_find(uintptr_t address, struct sa_unwind_object *ret);

/* The last frame description entry that begins at or before the address, and may cover it. */
enum sa_unwind_found sa_unwind_object_fde(const struct sa_unwind_object *object, uintptr_t address,
                                          const uint8_t **ret_fde);

/* Stands for what that entry says, of an object without identity: equal only if the bytes are. 0:
 * no entry. */
uint64_t sa_unwind_object_fde_identity(const struct sa_unwind_object *object, uintptr_t address);

/* Whether the object has code at [address, address + bytes), so that it can be read. */
bool sa_unwind_object_has_code(const struct sa_unwind_object *object, uintptr_t address,
                               uintptr_t bytes);

#endif
