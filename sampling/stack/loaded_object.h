/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the loaded object that an address belongs to.
 *
 * With glibc 2.35 or later a search asks the loader's index (_dl_find_object), without a lock and
 * without memory. With an earlier glibc a search walks the loader's list (dl_iterate_phdr) under
 * the loader's lock. The loader allocates under that lock, so the caller holds no lock of salloc
 * that malloc takes. The fast unwinder exists only where a search takes no lock (unwind.h).
 */
#ifndef SA_SAMPLING_STACK_LOADED_OBJECT_H
#define SA_SAMPLING_STACK_LOADED_OBJECT_H

#include "alloc/base/attrs.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>

struct link_map; /* <link.h> */

struct sa_loaded_object {
    uintptr_t start, end;       /* addresses [start, end) of its mapping */
    const struct link_map *map; /* NULL: the loader has no record, as in static programs */
    const uint8_t *eh_index;    /* its PT_GNU_EH_FRAME segment; NULL: it has none */
};

/* SA_OLD_GLIBC: tests build with it to get the search of an earlier glibc. */
#if defined(DLFO_STRUCT_HAS_EH_DBASE) && !defined(SA_OLD_GLIBC)
#define SA_FIND_OBJECT 1
#else
#define SA_FIND_OBJECT 0
#endif

#if SA_FIND_OBJECT

/* Stores the object that has the address in *ret. False: no object has it. *ret is valid as long as
 * the object is loaded. */
SA_INLINE bool sa_loaded_object_find(uintptr_t address, struct sa_loaded_object *ret)
{
    int (*find)(void *, struct dl_find_object *) = _dl_find_object;
    struct dl_find_object found;

    SA_OPAQUE(find); /* bound when the library is loaded, not at the first call: see init_bind */
    if (find((void *)address, &found) != 0)
        return false;
    ret->start = (uintptr_t)found.dlfo_map_start;
    ret->end = (uintptr_t)found.dlfo_map_end;
    ret->map = found.dlfo_link_map;
    ret->eh_index = found.dlfo_eh_frame;
    return true;
}

#else

bool sa_loaded_object_find(uintptr_t address, struct sa_loaded_object *ret);

#endif

#endif
