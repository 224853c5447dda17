/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Detects programs that define some of the functions of this library themselves: a malloc compiled
 * into the executable, operators new and delete that count, a library preloaded before this one.
 *
 * The loader binds every call to the first definition. The functions that the program has not
 * replaced come here, and must end in the program's functions, as they do with libc and libstdc++:
 *
 *   - every operator new and delete that the program has not defined calls those that it has, and
 *     in the end its malloc and free ([new.delete] of the C++ standard says which calls which);
 *   - reallocarray calls its realloc; free_sized and free_aligned_sized call its free.
 *
 * Only these functions must ask, and only in their slow paths, because a function that the program
 * has replaced is never called here. Until it is known that nothing is replaced, the size limits of
 * the operators' fast paths are 0.
 *
 * A function is not replaced if the loader finds the one of the library behind this one first, libc
 * or libstdc++. Then this library was loaded with dlopen, or linked behind them, and is used by
 * name.
 */
#ifndef SA_API_REPLACED_H
#define SA_API_REPLACED_H

#include "alloc/base/attrs.h"

#include <stdbool.h>
#include <stddef.h>

/* The definitions of this library, to which the loader cannot bind another function. */
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

/*
 * Whether to ask the functions below. 0 once it is known that nothing is replaced, which in nearly
 * all programs is so after initialisation. Atomic, relaxed: every thread that finds out stores the
 * same.
 */
extern unsigned char sa_replaced_maybe SA_HIDDEN;

/* Called by the constructor. Later the loader could not be asked safely: another thread may hold
 * the loader's lock and wait for this one. */
void sa_replaced_ask(void);

/* Called by the initialisation, under INIT. Opens the fast paths of the operators if nothing can be
 * replaced. */
void sa_replaced_init(void);

/* Whether the program has replaced malloc, calloc, realloc or free. The first call asks the loader,
 * and must not be made with a lock held. */
bool sa_replaced_malloc(void);

/* Whether the program has replaced one of those, or an operator new or delete that others call. */
bool sa_replaced_cxx(void);

/* Whether the program has replaced the operator new that the others call; aligned: the one with an
 * alignment. */
bool sa_replaced_new(bool aligned);

/*
 * Whether the program uses another malloc and has never had a block from this library: another copy
 * of this library may be in use. Such a copy prints and writes nothing. The program may still call
 * its other functions later.
 */
bool sa_replaced_serves_nobody(void);

#endif
