/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dlclose, exported so that the stack table learns what was unloaded. Otherwise frames of a library
 * that is gone get the names of another one at its place (sampling/stack/unloaded.h).
 *
 * A static program has no second dlclose: the archive's would come before libc's, and is left out.
 */
#include "alloc/api/interposers/dlsym.h"
#include "alloc/api/init.h"
#include "alloc/base/atomic.h"
#include "alloc/base/attrs.h"
#include "alloc/os/loader.h"
#include "sampling/symbolize/unloads.h"

#include <dlfcn.h>
#include <stdlib.h>

#ifndef SA_STATIC
typedef int (*dlclose_function)(void *);

/* Atomic, relaxed: every thread that looks it up stores the same address. */
static dlclose_function libc_dlclose;
static void *interposer; /* sa_loader_interposer */

static int dlclose_by(dlclose_function next, void *handle)
{
    int failed;

    sa_init();
    sa_unloads_look(true);
    failed = next(handle);
    if (!failed)
        sa_unloads_look(false);
    return failed;
}

SA_RARE int sa_direct_dlclose(void *handle)
{
    dlclose_function f = sa_load_relaxed(&libc_dlclose);

    if (!f) {
        f = (dlclose_function)sa_loader_libc_function("dlclose", NULL);
        if (!f)
            abort(); /* not reached: there is libc's */
        sa_store_relaxed(&libc_dlclose, f);
    }
    return dlclose_by(f, handle);
}

SA_EXPORT SA_RARE int dlclose(void *handle)
{
    dlclose_function next = (dlclose_function)sa_loader_interposer(&interposer, "dlclose");

    return next ? dlclose_by(next, handle) : sa_direct_dlclose(handle);
}
#endif
