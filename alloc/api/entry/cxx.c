/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The C++ operators new and delete, by their mangled names (Itanium ABI, size_t = unsigned long).
 * All are weak, so that a program with operators of its own can be linked with the static library.
 *
 * Out of memory. The standard demands that new calls the new_handler until a retry succeeds, the
 * handler throws, or no handler is set; then new throws std::bad_alloc. libstdc++'s own operators
 * do exactly that around malloc. A failure is therefore handed to the libstdc++ operator of the
 * same name, which dlsym (RTLD_NEXT) finds behind this library. That operator also catches what the
 * handler throws in the nothrow forms, which C cannot do. A static program does not contain
 * libstdc++'s operators. There the handler and the throwing function are called through weak
 * references.
 *
 * Replaced operators. A program may define some of the operators itself, and expects that the
 * others call those: new[] calls new, sized delete the unsized one, and so on (replaced.h). Then a
 * block comes from libstdc++'s operator of the same name, which does so. It is freed by the
 * operator that the standard names (`goes_to` below).
 *
 * Shared words: each operator new has a static word `found` (new_by_other).
 */
#include "alloc/api/interposers/dlsym.h"
#include "alloc/api/entry/entry.h"
#include "alloc/api/replaced.h"
#include "alloc/base/atomic.h"
#include "alloc/base/bits.h"
#include "alloc/base/fatal.h"
#include "alloc/base/page.h"
#include "alloc/front/fast_path.h"
#include "alloc/front/mismatch.h"
#include "alloc/os/loader.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

typedef void (*new_handler)(void);
extern new_handler _ZSt15get_new_handlerv(void) SA_WEAK;        /* std::get_new_handler() */
extern void _ZSt17__throw_bad_allocv(void) SA_WEAK SA_NORETURN; /* std::__throw_bad_alloc() */

/* The operators that others call, as the loader binds them: the program's, or those of this
 * file. */
extern void *_Znwm(size_t size) SA_WEAK;
extern void *_ZnwmSt11align_val_t(size_t size, size_t align) SA_WEAK;
extern void _ZdlPv(void *p) SA_WEAK;
extern void _ZdaPv(void *p) SA_WEAK;
extern void _ZdlPvSt11align_val_t(void *p, size_t align) SA_WEAK;
extern void _ZdaPvSt11align_val_t(void *p, size_t align) SA_WEAK;

/* Whether blocks come from functions of the program and go back to them. */
SA_INLINE bool operators_replaced(void)
{
    return SA_UNLIKELY(sa_load_relaxed(&sa_replaced_maybe)) && sa_replaced_cxx();
}

/*
 * Allocates once, without libstdc++'s operators: with the program's operator or malloc, or here.
 * NULL: out of memory. An exception of the program's operator passes through, also out of the
 * nothrow forms.
 */
static void *new_once(size_t size, size_t align, sa_entry_kind kind)
{
    if (!operators_replaced())
        return sa_entry_alloc(size, align, 0, kind, NULL);
    if (align)
        return sa_replaced_new(true) ? _ZnwmSt11align_val_t(size, align)
                                     : aligned_alloc(align, size);
    return sa_replaced_new(false) ? _Znwm(size) : malloc(size);
}

/* Repeats new_once, with a call of the new_handler in between, as the standard demands. NULL: out
 * of memory and no handler is set. */
static void *new_loop(size_t size, size_t align, sa_entry_kind kind)
{
    for (;;) {
        void *p = new_once(size, align, kind);
        new_handler handler;

        if (p)
            return p;
        handler = _ZSt15get_new_handlerv ? _ZSt15get_new_handlerv() : NULL;
        if (!handler)
            return NULL;
        handler();
    }
}

typedef void *(*new_function)(size_t, ...);

/* Finds libstdc++'s operator of the name, or returns NULL. A C program may have loaded a library
 * that brings libstdc++ with it, which RTLD_NEXT does not find. */
static new_function new_next(const char *name)
{
    void *next = sa_loader_dlsym(RTLD_NEXT, name);
#ifndef SA_STATIC
    void *library = next ? NULL : sa_direct_dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_NOLOAD);

    if (library) {
        next = sa_loader_dlsym(library, name);
        dlclose(library);
    }
#endif
    return (new_function)next;
}

#define NEW_NONE ((new_function)1) /* new_next found none */

/*
 * The rare end of every operator new: memory ran out, or the program has replaced operators. Calls
 * libstdc++'s operator of the same name, or does what that would do. NULL: out of memory in a
 * nothrow form.
 *
 * found: that operator, NEW_NONE, or NULL before the first lookup; atomic, relaxed: every writer
 * stores what the loader says. A lookup is slow, and allocates if it fails.
 */
SA_COLD static void *new_by_other(new_function *found, const char *name, const void *nothrow,
                                  size_t size, size_t align, sa_entry_kind kind)
{
    new_function next = sa_load_relaxed(found);
    void *p;

    if (next == NEW_NONE) {
        p = new_loop(size, align, kind);
        if (p)
            return p;
        next = NULL; /* libstdc++, which can throw, may have been loaded since the last lookup */
    }
    if (!next) {
        next = new_next(name);
        sa_store_relaxed(found, next ? next : NEW_NONE);
    }
    /*
     * The arguments are (size), (size, nothrow), (size, align) or (size, align, nothrow); an
     * operator ignores those beyond its own. libstdc++ rounds an aligned size up without a check
     * for overflow.
     */
    if (next) {
        bool replaced = operators_replaced();

        if (align)
            p = next(replaced ? size : sa_min(size, PTRDIFF_MAX), align, nothrow);
        else
            p = next(size, nothrow);
        /* libstdc++'s operator got the block from malloc, and operator delete of this file will
         * free it. */
        if (p && !replaced)
            sa_mismatch_adopt(p, sa_kind_origin(kind, align));
        return p;
    }
    p = new_loop(size, align, kind);
    if (p || nothrow)
        return p;
    if (_ZSt17__throw_bad_allocv)
        _ZSt17__throw_bad_allocv();
    sa_fatal("operator new", NULL,
             "out of memory for %zu bytes, and no libstdc++ to throw bad_alloc", size);
}

#define NEW(name, nothrow_parameter, nothrow, kind)                                                \
    static SA_NOINLINE void *name##_slow(size_t size)                                              \
    {                                                                                              \
        static new_function found;                                                                 \
        void *p = operators_replaced() ? NULL : sa_entry_alloc(size, 1, 0, kind, SA_CALLER);       \
                                                                                                   \
        return SA_LIKELY(p != NULL) ? p : new_by_other(&found, #name, nothrow, size, 0, kind);     \
    }                                                                                              \
                                                                                                   \
    SA_FAST_ENTRY SA_WEAK void *name(size_t size nothrow_parameter)                                \
    {                                                                                              \
        return sa_fast_alloc(SA_FOR_CXX, size, false, name##_slow);                                \
    }

/* NULL: new_by_other must decide, because memory ran out or the program has replaced operators. */
SA_RARE static SA_NOINLINE void *new_aligned(size_t size, size_t align, sa_entry_kind kind,
                                             const void *caller)
{
    void *p;

    if (!sa_is_pow2(align))
        return NULL;
    p = sa_entry_alloc_aligned(size, align, sa_hot.cxx_mid_limit);
    if (SA_UNLIKELY(!p) && !operators_replaced())
        p = sa_entry_alloc(size, align, 0, kind, caller);
    return p;
}

#define NEW_ALIGNED(name, nothrow_parameter, nothrow, kind)                                        \
    SA_RARE SA_EXPORT SA_WEAK void *name(size_t size, size_t align nothrow_parameter)              \
    {                                                                                              \
        static new_function found;                                                                 \
        void *p = new_aligned(size, align, kind, SA_CALLER);                                       \
                                                                                                   \
        return SA_LIKELY(p != NULL) ? p : new_by_other(&found, #name, nothrow, size, align, kind); \
    }

#define ALIGNED_NEW   (SALLOC_KIND_ALIGNED | SA_CALLER_FAMILY(SA_FAMILY_NEW))
#define ALIGNED_ARRAY (SALLOC_KIND_ALIGNED | SA_CALLER_FAMILY(SA_FAMILY_ARRAY))

#define NOTHING
#define COMMA_TAG     , const void *tag __attribute__((unused))
#define COMMA_NOTHROW , const void *tag

/* std::nothrow, as an address: libstdc++'s operators do not read the object. */
static const char new_nothrow_tag;

NEW(_Znwm, NOTHING, NULL, SA_ENTRY_NEW)   /* operator new(size) */
NEW(_Znam, NOTHING, NULL, SA_ENTRY_ARRAY) /* operator new[](size) */
NEW(_ZnwmRKSt9nothrow_t, COMMA_TAG, &new_nothrow_tag,
    SA_ENTRY_NEW) /* operator new(size, nothrow) */
NEW(_ZnamRKSt9nothrow_t, COMMA_TAG, &new_nothrow_tag,
    SA_ENTRY_ARRAY)                                           /* operator new[](size, nothrow) */
NEW_ALIGNED(_ZnwmSt11align_val_t, NOTHING, NULL, ALIGNED_NEW) /* operator new(size, align) */
NEW_ALIGNED(_ZnamSt11align_val_t, NOTHING, NULL, ALIGNED_ARRAY)
NEW_ALIGNED(_ZnwmSt11align_val_tRKSt9nothrow_t, COMMA_NOTHROW, tag, ALIGNED_NEW)
NEW_ALIGNED(_ZnamSt11align_val_tRKSt9nothrow_t, COMMA_NOTHROW, tag, ALIGNED_ARRAY)

/* goes_to: the call that the standard prescribes where the program has replaced an operator or
 * free. */
#define DELETE(name, more_parameters, kind, goes_to)                                               \
    static SA_NOINLINE void name##_slow(void *p)                                                   \
    {                                                                                              \
        if (operators_replaced())                                                                  \
            goes_to;                                                                               \
        else                                                                                       \
            sa_entry_delete(p, 1, kind);                                                           \
    }                                                                                              \
                                                                                                   \
    SA_FAST_ENTRY SA_WEAK void name(void *p more_parameters)                                       \
    {                                                                                              \
        sa_fast_free(SA_FOR_CXX, p, name##_slow);                                                  \
    }

#define DELETE_SIZED(name, kind, goes_to)                                                          \
    static SA_NOINLINE void name##_slow(void *p, size_t size)                                      \
    {                                                                                              \
        if (operators_replaced())                                                                  \
            goes_to;                                                                               \
        else                                                                                       \
            sa_entry_free_sized(p, size, 0, kind);                                                 \
    }                                                                                              \
                                                                                                   \
    SA_FAST_ENTRY SA_WEAK void name(void *p, size_t size)                                          \
    {                                                                                              \
        sa_fast_free_sized(SA_FOR_CXX, p, size, name##_slow);                                      \
    }

/* A slow path that the fast path leaves for gets the pointer alone, without the alignment. These
 * functions therefore ask before the fast path. */
#define DELETE_ALIGNED(name, more_parameters, kind, goes_to)                                       \
    SA_RARE SA_FAST_ENTRY SA_WEAK void name(void *p, size_t align more_parameters)                 \
    {                                                                                              \
        if (operators_replaced())                                                                  \
            goes_to;                                                                               \
        else                                                                                       \
            sa_entry_delete(p, align, kind);                                                       \
    }

#define DELETE_SIZED_ALIGNED(name, kind, goes_to)                                                  \
    SA_RARE SA_EXPORT SA_WEAK void name(void *p, size_t size, size_t align)                        \
    {                                                                                              \
        if (operators_replaced())                                                                  \
            goes_to;                                                                               \
        else if (!sa_entry_free_aligned(p, size, align))                                           \
            sa_entry_free_sized(p, size, align, kind);                                             \
    }

DELETE(_ZdlPv, NOTHING, SA_ENTRY_NEW, free(p))     /* operator delete(p) */
DELETE(_ZdaPv, NOTHING, SA_ENTRY_ARRAY, _ZdlPv(p)) /* operator delete[](p) */
DELETE(_ZdlPvRKSt9nothrow_t, COMMA_TAG, SA_ENTRY_NEW, _ZdlPv(p))
DELETE(_ZdaPvRKSt9nothrow_t, COMMA_TAG, SA_ENTRY_ARRAY, _ZdaPv(p))
DELETE_SIZED(_ZdlPvm, SA_ENTRY_NEW, _ZdlPv(p)) /* operator delete(p, size) */
DELETE_SIZED(_ZdaPvm, SA_ENTRY_ARRAY, _ZdaPv(p))
DELETE_ALIGNED(_ZdlPvSt11align_val_t, NOTHING, ALIGNED_NEW, free(p)) /* operator delete(p, align) */
DELETE_ALIGNED(_ZdaPvSt11align_val_t, NOTHING, ALIGNED_ARRAY, _ZdlPvSt11align_val_t(p, align))
DELETE_ALIGNED(_ZdlPvSt11align_val_tRKSt9nothrow_t, COMMA_TAG, ALIGNED_NEW,
               _ZdlPvSt11align_val_t(p, align))
DELETE_ALIGNED(_ZdaPvSt11align_val_tRKSt9nothrow_t, COMMA_TAG, ALIGNED_ARRAY,
               _ZdaPvSt11align_val_t(p, align))
DELETE_SIZED_ALIGNED(_ZdlPvmSt11align_val_t, ALIGNED_NEW, _ZdlPvSt11align_val_t(p, align))
DELETE_SIZED_ALIGNED(_ZdaPvmSt11align_val_t, ALIGNED_ARRAY, _ZdaPvSt11align_val_t(p, align))

extern __typeof__(_Znwm) sa_own_new SA_OWN_NAME_OF(_Znwm);
extern __typeof__(_Znam) sa_own_new_array SA_OWN_NAME_OF(_Znam);
extern __typeof__(_ZnwmSt11align_val_t) sa_own_new_aligned SA_OWN_NAME_OF(_ZnwmSt11align_val_t);
extern __typeof__(_ZnamSt11align_val_t)
    sa_own_new_array_aligned SA_OWN_NAME_OF(_ZnamSt11align_val_t);
extern __typeof__(_ZdlPv) sa_own_delete SA_OWN_NAME_OF(_ZdlPv);
extern __typeof__(_ZdaPv) sa_own_delete_array SA_OWN_NAME_OF(_ZdaPv);
extern __typeof__(_ZdlPvSt11align_val_t)
    sa_own_delete_aligned SA_OWN_NAME_OF(_ZdlPvSt11align_val_t);
extern __typeof__(_ZdaPvSt11align_val_t)
    sa_own_delete_array_aligned SA_OWN_NAME_OF(_ZdaPvSt11align_val_t);
