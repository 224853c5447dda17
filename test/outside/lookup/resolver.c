/* SPDX-License-Identifier: Apache-2.0 */
/* A function whose resolver (IFUNC) looks another one up, and makes calls by number. The loader
 * runs the resolver for a library that refers to the function (resolved.c), before it has relocated
 * what is preloaded. */
#include <dlfcn.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

extern int resolver_function(void);

static int found(void)
{
    return 1;
}

static int not_found(void)
{
    return 0;
}

__attribute__((used)) static int (*resolve(void))(void)
{
    return dlsym(RTLD_DEFAULT, "qsort") && dlsym(RTLD_DEFAULT, "malloc") &&
                   syscall(SYS_getppid) > 0 && syscall(SYS_close, -1) == -1 &&
                   syscall(SYS_madvise, &found, 1ul, MADV_DONTDUMP) == -1
               ? found
               : not_found;
}

int resolver_function(void) __attribute__((ifunc("resolve")));
