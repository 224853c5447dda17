/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dlopen, exported to clear RTLD_DEEPBIND in its flags, unless SALLOC_CONF=deepbind:on.
 *
 * The flag binds malloc and free of the loaded library to libc's, although another allocator is
 * preloaded. Pointers then cross allocators and the program dies, as php does with any preloaded
 * malloc.
 *
 * The call of the real dlopen is a tail call. dlopen takes its return address for the caller, whose
 * search path applies: it must see the program, not this library.
 *
 * A static program has no second dlopen: the archive's comes before libc's. There libc's dlmopen
 * has the same effect, because a static program has one search path and one namespace.
 */
#include "alloc/api/init.h"
#include "alloc/api/options.h"
#include "alloc/base/attrs.h"

#include <dlfcn.h>
#include <stdlib.h>

/* Makes the compiler use a tail call in a debug build too. */
#if defined(__GNUC__) && !defined(__clang__)
#define DEEPBIND_TAIL_CALLS __attribute__((optimize("O2")))
#else
#define DEEPBIND_TAIL_CALLS
#endif

typedef void *(*dlopen_function)(const char *, int);

/* Atomic, relaxed: every thread that looks it up stores the same address. */
static dlopen_function real_dlopen;

#ifdef SA_STATIC
static void *static_dlopen(const char *path, int flags)
{
    return dlmopen(LM_ID_BASE, path, flags);
}
#else
#define static_dlopen NULL
#endif

SA_COLD static dlopen_function deepbind_find(void)
{
    dlopen_function f = (dlopen_function)dlsym(RTLD_NEXT, "dlopen");

    if (!f)
        f = static_dlopen;
    if (!f)
        abort(); /* not reached: a process without a dlopen behind this one could not have called it
                  */
    sa_store_relaxed(&real_dlopen, f);
    return f;
}

SA_EXPORT SA_RARE DEEPBIND_TAIL_CALLS void *dlopen(const char *path, int flags)
{
    dlopen_function f = sa_load_relaxed(&real_dlopen);

    sa_init();
    if (!f)
        f = deepbind_find();
    if (!sa_options.deepbind)
        flags &= ~RTLD_DEEPBIND;
    return f(path, flags);
}
