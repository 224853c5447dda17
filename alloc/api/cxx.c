/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The C++ operators new and delete, by their mangled names (Itanium ABI, size_t = unsigned long).
 *
 * When memory runs out, the standard wants the new_handler called until it helps, throws or does
 * not exist, and then std::bad_alloc. libstdc++'s own operators do exactly that around malloc, so
 * a failure is handed to them, found behind this library with dlsym (RTLD_NEXT); this is also what
 * catches an exception of the handler in the nothrow forms, which C cannot. In a static program
 * libstdc++'s operators are not linked; there the handler and the throwing function are called
 * through weak references.
 */
#include "alloc/api/entry.h"
#include "alloc/base/bits.h"
#include "alloc/base/fatal.h"
#include "alloc/base/page.h"
#include "alloc/front/fast.h"

#include <dlfcn.h>
#include <errno.h>

typedef void (*new_handler)(void);
extern new_handler _ZSt15get_new_handlerv(void) SA_WEAK;        /* std::get_new_handler() */
extern void _ZSt17__throw_bad_allocv(void) SA_WEAK SA_NORETURN; /* std::__throw_bad_alloc() */

/* Failure without libstdc++'s operators: the standard's loop. Returns only if the handler helped. */
static void *new_retry(size_t size, size_t align)
{
    for (;;) {
        new_handler handler = _ZSt15get_new_handlerv ? _ZSt15get_new_handlerv() : NULL;
        void *p;

        if (!handler)
            return NULL;
        handler();
        p = sa_entry_alloc(size, align, 0, SALLOC_KIND_NEW, NULL);
        if (p)
            return p;
    }
}

typedef void *(*new_function)(size_t, ...);

/* libstdc++'s operator of the name. A program that is not C++ may have loaded libstdc++ with a
 * library of its own, where RTLD_NEXT does not look. */
static new_function new_next(const char *name)
{
    void *next = dlsym(RTLD_NEXT, name);
    void *library = next ? NULL : dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_NOLOAD);

    if (library) {
        next = dlsym(library, name);
        dlclose(library);
    }
    return (new_function)next;
}

SA_COLD static void *new_failed(size_t size, size_t align, const char *name, const void *nothrow)
{
    new_function next = new_next(name);
    void *p;

    if (next && align) /* (size, align) or (size, align, nothrow); the rest is ignored */
        return next(size, align, nothrow);
    if (next)
        return next(size, nothrow);
    p = new_retry(size, align);
    if (p || nothrow)
        return p;
    if (_ZSt17__throw_bad_allocv)
        _ZSt17__throw_bad_allocv();
    sa_fatal("operator new", NULL,
             "out of memory for %zu bytes, and no libstdc++ to throw bad_alloc", size);
}

#define NEW(name, nothrow_parameter, nothrow)                                                      \
    static SA_NOINLINE void *name##_slow(size_t size)                                              \
    {                                                                                              \
        void *p = sa_entry_alloc(size, 1, 0, SALLOC_KIND_NEW, SA_CALLER);                          \
                                                                                                   \
        return SA_LIKELY(p != NULL) ? p : new_failed(size, 0, #name, nothrow);                     \
    }                                                                                              \
                                                                                                   \
    SA_FAST_ENTRY void *name(size_t size nothrow_parameter)                                        \
    {                                                                                              \
        return sa_fast_alloc(size, false, name##_slow);                                            \
    }

#define NEW_ALIGNED(name, nothrow_parameter, nothrow)                                              \
    SA_EXPORT void *name(size_t size, size_t align nothrow_parameter)                              \
    {                                                                                              \
        void *p = sa_is_pow2(align)                                                                \
                      ? sa_entry_alloc(size, align, 0, SALLOC_KIND_ALIGNED, SA_CALLER)             \
                      : NULL;                                                                      \
                                                                                                   \
        if (SA_LIKELY(p != NULL))                                                                  \
            return p;                                                                              \
        return new_failed(size, align, #name, nothrow);                                            \
    }

#define NOTHING
#define COMMA_TAG     , const void *tag __attribute__((unused))
#define COMMA_NOTHROW , const void *tag

/* std::nothrow for libstdc++'s operators, which do not look at it. */
static const char new_nothrow_tag;

NEW(_Znwm, NOTHING, NULL)                             /* operator new(size) */
NEW(_Znam, NOTHING, NULL)                             /* operator new[](size) */
NEW(_ZnwmRKSt9nothrow_t, COMMA_TAG, &new_nothrow_tag) /* operator new(size, nothrow) */
NEW(_ZnamRKSt9nothrow_t, COMMA_TAG, &new_nothrow_tag) /* operator new[](size, nothrow) */
NEW_ALIGNED(_ZnwmSt11align_val_t, NOTHING, NULL)      /* operator new(size, align) */
NEW_ALIGNED(_ZnamSt11align_val_t, NOTHING, NULL)
NEW_ALIGNED(_ZnwmSt11align_val_tRKSt9nothrow_t, COMMA_NOTHROW, tag)
NEW_ALIGNED(_ZnamSt11align_val_tRKSt9nothrow_t, COMMA_NOTHROW, tag)

static void delete_sized_slow(void *p, size_t size)
{
    sa_entry_free_sized(p, size, 0);
}

#define DELETE(name, more_parameters)                                                              \
    SA_FAST_ENTRY void name(void *p more_parameters)                                               \
    {                                                                                              \
        sa_fast_free(p, sa_entry_free);                                                            \
    }

#define DELETE_SIZED(name)                                                                         \
    SA_FAST_ENTRY void name(void *p, size_t size)                                                  \
    {                                                                                              \
        sa_fast_free_sized(p, size, delete_sized_slow);                                            \
    }

#define DELETE_SIZED_ALIGNED(name)                                                                 \
    SA_EXPORT void name(void *p, size_t size, size_t align)                                        \
    {                                                                                              \
        sa_entry_free_sized(p, size, align);                                                       \
    }

#define COMMA_ALIGN     , size_t align __attribute__((unused))
#define COMMA_ALIGN_TAG COMMA_ALIGN COMMA_TAG

DELETE(_ZdlPv, NOTHING) /* operator delete(p) */
DELETE(_ZdaPv, NOTHING) /* operator delete[](p) */
DELETE(_ZdlPvRKSt9nothrow_t, COMMA_TAG)
DELETE(_ZdaPvRKSt9nothrow_t, COMMA_TAG)
DELETE(_ZdlPvSt11align_val_t, COMMA_ALIGN)
DELETE(_ZdaPvSt11align_val_t, COMMA_ALIGN)
DELETE(_ZdlPvSt11align_val_tRKSt9nothrow_t, COMMA_ALIGN_TAG)
DELETE(_ZdaPvSt11align_val_tRKSt9nothrow_t, COMMA_ALIGN_TAG)
DELETE_SIZED(_ZdlPvm) /* operator delete(p, size) */
DELETE_SIZED(_ZdaPvm)
DELETE_SIZED_ALIGNED(_ZdlPvmSt11align_val_t)
DELETE_SIZED_ALIGNED(_ZdaPvmSt11align_val_t)
