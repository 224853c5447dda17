/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dlopen and dlmopen, exported to clear RTLD_DEEPBIND in their flags, unless
 * SALLOC_CONF=deepbind:on.
 *
 * The flag binds malloc and free of the loaded library to libc's, although another allocator is
 * preloaded. Pointers then cross allocators and the program dies, as php does with any preloaded
 * malloc. dlmopen can load into the program's own namespace (LM_ID_BASE), where the same holds. In
 * other namespaces the library has a libc and a malloc of its own, and the flag is left alone.
 *
 * The call of the next dlopen is a tail call. dlopen takes its return address for the caller, whose
 * search path applies: it must see the program, not this library.
 *
 * A static program has no second dlopen: the archive's comes before libc's. There libc's dlmopen
 * has the same effect, because a static program has one search path and one namespace. So the
 * archive has no dlmopen.
 */
#include "alloc/api/interposers/dlsym.h"
#include "alloc/api/init.h"
#include "alloc/api/options/options.h"
#include "alloc/base/attrs.h"
#include "alloc/os/loader.h"

#include <dlfcn.h>
#include <stdlib.h>

/* Makes the compiler use a tail call in a debug build too. */
#if defined(__GNUC__) && !defined(__clang__)
#define DEEPBIND_TAIL_CALLS __attribute__((optimize("O2")))
#else
#define DEEPBIND_TAIL_CALLS
#endif

typedef void *(*dlopen_function)(const char *, int);
typedef void *(*dlmopen_function)(Lmid_t, const char *, int);

/* libc's functions; atomic, relaxed: every thread stores the same. */
static dlopen_function libc_dlopen;
static void *dlopen_interposer; /* sa_loader_interposer */

#ifdef SA_STATIC
static void *static_dlopen(const char *path, int flags)
{
    return dlmopen(LM_ID_BASE, path, flags);
}
#else
#define static_dlopen NULL
#endif

static dlopen_function deepbind_find(void)
{
    dlopen_function f = (dlopen_function)sa_loader_libc_function("dlopen", NULL);

    if (!f)
        f = static_dlopen;
    if (!f)
        abort(); /* not reached: libc is where the caller's dlopen would have come from */
    sa_store_relaxed(&libc_dlopen, f);
    return f;
}

static int deepbind_clear(int flags)
{
    sa_init();
    return sa_options.deepbind ? flags : flags & ~RTLD_DEEPBIND;
}

DEEPBIND_TAIL_CALLS void *sa_direct_dlopen(const char *path, int flags)
{
    dlopen_function f = sa_load_relaxed(&libc_dlopen);

    if (!f)
        f = deepbind_find();
    flags = deepbind_clear(flags);
    return f(path, flags);
}

SA_EXPORT DEEPBIND_TAIL_CALLS void *dlopen(const char *path, int flags)
{
    dlopen_function f = (dlopen_function)sa_loader_interposer(&dlopen_interposer, "dlopen");

    if (!f)
        f = sa_load_relaxed(&libc_dlopen);
    if (!f)
        f = deepbind_find();
    flags = deepbind_clear(flags);
    return f(path, flags);
}

#ifndef SA_STATIC
static dlmopen_function libc_dlmopen; /* atomic, relaxed: every thread stores the same */
static void *dlmopen_interposer;      /* sa_loader_interposer */

static dlmopen_function deepbind_find_dlmopen(void)
{
    dlmopen_function f = (dlmopen_function)sa_loader_libc_function("dlmopen", NULL);

    if (!f)
        abort(); /* not reached, as above */
    sa_store_relaxed(&libc_dlmopen, f);
    return f;
}

DEEPBIND_TAIL_CALLS void *sa_direct_dlmopen(Lmid_t space, const char *path, int flags)
{
    dlmopen_function f = sa_load_relaxed(&libc_dlmopen);

    if (!f)
        f = deepbind_find_dlmopen();
    if (space == LM_ID_BASE)
        flags = deepbind_clear(flags);
    return f(space, path, flags);
}

SA_EXPORT DEEPBIND_TAIL_CALLS void *dlmopen(Lmid_t space, const char *path, int flags)
{
    dlmopen_function f = (dlmopen_function)sa_loader_interposer(&dlmopen_interposer, "dlmopen");

    if (!f)
        f = sa_load_relaxed(&libc_dlmopen);
    if (!f)
        f = deepbind_find_dlmopen();
    if (space == LM_ID_BASE)
        flags = deepbind_clear(flags);
    return f(space, path, flags);
}
#endif
