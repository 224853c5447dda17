/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that bring functions of their own for some of the names that this library defines: a
 * malloc compiled into the executable, operators new and delete that count, a library preloaded
 * before this one. The loader gives everybody the first definition, so that calls of the rest of
 * the family, which come here, must end in those functions too, as they do with libc and libstdc++:
 *
 *   - every operator new and delete that the program has not defined goes back to those that it
 *     has, and in the end to its malloc and free ([new.delete] of the C++ standard says which calls
 *     which);
 *   - reallocarray calls its realloc, free_sized its free.
 *
 * A function of ours is not called if the program has that one, so nothing but this must be asked,
 * and only in slow paths: until it is known that nothing is replaced, the limits of the operators'
 * fast paths are 0.
 *
 * Not replaced is what the loader finds before this library where that is the library behind it,
 * libc or libstdc++: then this one was loaded with dlopen, or linked behind them, and is used by
 * name.
 */
#ifndef SA_API_REPLACED_H
#define SA_API_REPLACED_H

#include "alloc/base/attrs.h"

#include <stdbool.h>
#include <stddef.h>

/* Our own definitions, whatever the loader finds for their names. */
extern void *sa_own_malloc(size_t size) SA_HIDDEN;
extern void *sa_own_calloc(size_t count, size_t size) SA_HIDDEN;
extern void *sa_own_realloc(void *p, size_t size) SA_HIDDEN;
extern void sa_own_free(void *p) SA_HIDDEN;
extern void *sa_own_memalign(size_t align, size_t size) SA_HIDDEN;
extern void *sa_own_valloc(size_t size) SA_HIDDEN;
extern void *sa_own_pvalloc(size_t size) SA_HIDDEN;
extern int sa_own_posix_memalign(void **ret, size_t align, size_t size) SA_HIDDEN;
extern void *sa_own_new(size_t size) SA_HIDDEN;
extern void *sa_own_new_array(size_t size) SA_HIDDEN;
extern void *sa_own_new_aligned(size_t size, size_t align) SA_HIDDEN;
extern void *sa_own_new_array_aligned(size_t size, size_t align) SA_HIDDEN;
extern void sa_own_delete(void *p) SA_HIDDEN;
extern void sa_own_delete_array(void *p) SA_HIDDEN;
extern void sa_own_delete_aligned(void *p, size_t align) SA_HIDDEN;
extern void sa_own_delete_array_aligned(void *p, size_t align) SA_HIDDEN;

/* Whether to ask the functions below: false once it is known that nothing is replaced, which is
 * nearly always so after initialisation. Atomic, relaxed; whoever finds out writes what everybody
 * would. */
extern unsigned char sa_replaced_maybe SA_HIDDEN;

/* Called by the constructor, where the loader can be asked: later another thread may hold its lock
 * and wait for this one. */
void sa_replaced_ask(void);

/* Called by the initialisation; opens the fast paths of the operators if nothing can be
 * replaced. */
void sa_replaced_init(void);

/* Whether the program has a malloc, calloc, realloc or free of its own. Asks the loader the first
 * time: not for use with a lock held. */
bool sa_replaced_malloc(void);

/* The same, or an operator new or delete that others go back to. */
bool sa_replaced_cxx(void);

/* Whether the operator new that all others go back to is the program's. */
bool sa_replaced_new(bool aligned);

/*
 * Whether the program's malloc is another one and no block was ever had from here: another copy of
 * this library may be what everybody uses. Such a copy says and writes nothing. Somebody may still
 * call its other functions later.
 */
bool sa_replaced_serves_nobody(void);

#endif
