/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks symbols up in loaded objects, by the objects' own tables: the program's C library, and what
 * stands behind this library in the loader's search.
 *
 * Programs and preloaded libraries replace dlsym, and one of them may answer with a function of
 * this library. A lookup that wants the next definition of a function therefore calls no function
 * of the program's. The loader's list has the objects of the start in the order of its search. They
 * are never unloaded, so the list is read without a lock as far as the C library, and no further.
 *
 * Every function may be called from anywhere: before this library is relocated, with locks held, in
 * children of vfork. None allocates, and none changes errno. sa_loader_dlsym is the exception,
 * because it calls libc's dlsym.
 */
#ifndef SA_OS_LOADER_H
#define SA_OS_LOADER_H

#include "alloc/base/attrs.h"

#include <stdbool.h>

struct link_map; /* <link.h> */

/*
 * The loader's records of this library (in a program that has the archive inside: of the program)
 * and of the C library, and the first record of the list. sa_loader_own is NULL unless this library
 * stands before the C library in the search since the start: only then does the program's malloc
 * end here. A copy that was loaded late or into another namespace does not, and neither does the
 * archive in a static program.
 */
const struct link_map *sa_loader_own(void);
const struct link_map *sa_loader_libc(void);
const struct link_map *sa_loader_first(void);

/* Returns the object's definition of a name, or NULL: the default one, or the one with the version,
 * by the rules of dlvsym. */
void *sa_loader_definition(const struct link_map *map, const char *name, const char *version);

/* Returns libc's definition of a name, or NULL; version as above. libc: the one of this library's
 * namespace; before glibc 2.34, libdl.so.2 counts as a part of it. */
void *sa_loader_libc_function(const char *name, const char *version);

/*
 * Returns the first definition of a name between this library and libc, or NULL. Other copies of
 * this library do not count. The result is remembered in *cache, which is NULL before the first
 * call. Atomic, relaxed: every thread stores the same value, SA_LOADER_NONE in place of NULL.
 */
#define SA_LOADER_NONE 1
void *sa_loader_interposer(void **cache, const char *name);

/* False: the loader has not relocated this library yet, as in a resolver (IFUNC) of another object.
 * Nothing of libc can be called then. */
bool sa_loader_relocated(void);

/* Calls libc's dlsym, whatever the program has by that name. */
void *sa_loader_dlsym(void *handle, const char *name);

#endif
