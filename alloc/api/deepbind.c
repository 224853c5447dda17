/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dlopen with RTLD_DEEPBIND binds a library's malloc and free to libc's, behind the back of a
 * preloaded allocator: pointers then cross allocators and the program dies (php does, under every
 * preloaded malloc). So the flag is cleared, unless SALLOC_CONF=deepbind:on.
 *
 * The call to the real dlopen is a tail call: dlopen looks at its return address to find the
 * caller's search path, and must see the program, not this library.
 *
 * In a static program nothing is behind this dlopen, whose place in the archive is before libc's.
 * There libc's dlmopen does the same; it has one search path and one namespace.
 */
#include "alloc/api/init.h"
#include "alloc/api/options.h"
#include "alloc/base/attrs.h"

#include <dlfcn.h>
#include <stdlib.h>

/* Tail calls must be tail calls in a debug build too. */
#if defined(__GNUC__) && !defined(__clang__)
#define DEEPBIND_TAIL_CALLS __attribute__((optimize("O2")))
#else
#define DEEPBIND_TAIL_CALLS
#endif

typedef void *(*dlopen_function)(const char *, int);

static dlopen_function real_dlopen; /* atomic, relaxed: whoever looks it up finds the same */

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
        abort(); /* libc without dlopen: nothing could have called it */
    sa_store_relaxed(&real_dlopen, f);
    return f;
}

SA_EXPORT DEEPBIND_TAIL_CALLS void *dlopen(const char *path, int flags)
{
    dlopen_function f = sa_load_relaxed(&real_dlopen);

    sa_init();
    if (!f)
        f = deepbind_find();
    if (!sa_options.deepbind)
        flags &= ~RTLD_DEEPBIND;
    return f(path, flags);
}
