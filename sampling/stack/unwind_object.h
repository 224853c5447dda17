/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the loaded object of a code address for the fast unwinder, its identity, and its frame
 * descriptions. The identity tells whether a cached rule was made for the object that is loaded
 * now. The functions take no lock and no memory. They read the object itself and the loader's index
 * (loaded_object.h).
 *
 * An object whose code is on a stack cannot be unloaded. The object of a frame therefore stays
 * mapped during the walk.
 */
#ifndef SA_SAMPLING_STACK_UNWIND_OBJECT_H
#define SA_SAMPLING_STACK_UNWIND_OBJECT_H

#include <stdbool.h>
#include <stdint.h>

struct sa_unwind_object {
    uintptr_t start, end;    /* addresses [start, end) */
    uintptr_t bias;          /* address in memory minus address in the file */
    const uint8_t *eh_index; /* its PT_GNU_EH_FRAME segment; NULL: it has none */
    /*
     * Hash of the address and the build id. An object that is loaded in place of another has the
     * same identity only if it has the same build id. 0: not known.
     */
    uint64_t identity;
    bool permanent; /* true: never unloaded; false: it may be */
};

enum sa_unwind_found {
    SA_UNWIND_FDE,   /* a description was found */
    SA_UNWIND_NONE,  /* nothing describes the address */
    SA_UNWIND_FORMAT /* this code cannot read the index */
};

/* Stores the object that has the address in *ret. False: no object has it. */
bool sa_unwind_object_find(uintptr_t address, struct sa_unwind_object *ret);

/* The same among the permanent objects that a search has found before. Reads no object. */
bool sa_unwind_object_find_permanent(uintptr_t address, struct sa_unwind_object *ret);

/* Stores the last frame description entry that begins at or before the address. The caller checks
 * that it covers the address. */
enum sa_unwind_found sa_unwind_object_fde(const struct sa_unwind_object *object, uintptr_t address,
                                          const uint8_t **ret_fde);

/* Returns an identity for the description of the address, in an object without identity: a hash of
 * its bytes and its place. 0: nothing describes the address. */
uint64_t sa_unwind_object_fde_identity(const struct sa_unwind_object *object, uintptr_t address);

/* Returns whether [address, address + bytes) is readable code of the object. */
bool sa_unwind_object_has_code(const struct sa_unwind_object *object, uintptr_t address,
                               uintptr_t bytes);

/* Returns whether the object's program headers are at hand. They are not where the loader knows its
 * segments one by one. */
bool sa_unwind_object_has_headers(const struct sa_unwind_object *object);

#endif
