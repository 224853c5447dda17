/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dlclose, exported so that the stack table learns what was unloaded. Otherwise frames of a library
 * that is gone get the names of another one at its place (sampling/stack/unloaded.h).
 *
 * A static program has no second dlclose: the archive's would come before libc's, and is left out.
 */
#include "alloc/api/init.h"
#include "alloc/base/atomic.h"
#include "alloc/base/attrs.h"
#include "sampling/symbolize/unloads.h"

#include <dlfcn.h>
#include <stdlib.h>

#ifndef SA_STATIC
/* Atomic, relaxed: every thread that looks it up stores the same address. */
static int (*real_dlclose)(void *);

SA_EXPORT SA_RARE int dlclose(void *handle)
{
    int (*f)(void *) = sa_load_relaxed(&real_dlclose), failed;

    sa_init();
    if (!f) {
        f = (int (*)(void *))dlsym(RTLD_NEXT, "dlclose");
        if (!f)
            abort(); /* not reached: there is libc's */
        sa_store_relaxed(&real_dlclose, f);
    }
    sa_unloads_look(true);
    failed = f(handle);
    if (!failed)
        sa_unloads_look(false);
    return failed;
}
#endif
