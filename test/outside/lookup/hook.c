/* SPDX-License-Identifier: Apache-2.0 */
/* A library that counts calls, as tracers, translators and registration caches watch them. */
#include "test/outside/lookup/find.h"

#include <sched.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>

enum {
    DLOPEN,
    DLMOPEN,
    MADVISE,
    MPROTECT,
    PRCTL,
    CLONE,
    MLOCK,
    PKEY_MPROTECT,
    DLCLOSE,
    SYSCALL,
    NAMES
};
static const char *const names[NAMES] = {"dlopen",  "dlmopen", "madvise", "mprotect",
                                         "prctl",   "clone",   "mlock",   "pkey_mprotect",
                                         "dlclose", "syscall"};
static unsigned calls[NAMES]; /* not atomic: the program has one thread */
static void *next[NAMES];

extern unsigned hook_calls(const char *name);

unsigned hook_calls(const char *name)
{
    for (int i = 0; i < NAMES; i++)
        if (strcmp(name, names[i]) == 0)
            return calls[i];
    return 0;
}

/* Counts a call and returns the next function. Looks all of them up at once: a lookup by handle
 * calls dlopen. */
static void *count(int which)
{
    static int looking;

    calls[which] += !looking;
    if (!next[which]) {
        looking++;
        /* dlopen itself must be found by another route first. */
        if (which == DLOPEN && looking == 1 &&
            (FIND_ROUTE == FIND_HANDLE || FIND_ROUTE == FIND_HANDLE_VERSION)) {
            next[DLOPEN] = dlsym(RTLD_NEXT, "dlopen");
            next[DLOPEN] = find_by(FIND_ROUTE, "dlopen");
        } else {
            next[which] = find_by(looking > 1 ? FIND_NEXT : FIND_ROUTE, names[which]);
        }
        looking--;
        if (!next[which])
            abort();
    }
    return next[which];
}

void *dlopen(const char *path, int flags)
{
    return ((void *(*)(const char *, int))count(DLOPEN))(path, flags);
}

void *dlmopen(Lmid_t space, const char *path, int flags)
{
    return ((void *(*)(Lmid_t, const char *, int))count(DLMOPEN))(space, path, flags);
}

int madvise(void *p, size_t bytes, int advice)
{
    return ((int (*)(void *, size_t, int))count(MADVISE))(p, bytes, advice);
}

int mprotect(void *p, size_t bytes, int access)
{
    return ((int (*)(void *, size_t, int))count(MPROTECT))(p, bytes, access);
}

int prctl(int option, ...)
{
    unsigned long a[4];
    va_list ap;

    va_start(ap, option);
    for (int i = 0; i < 4; i++)
        a[i] = va_arg(ap, unsigned long);
    va_end(ap);
    return ((int (*)(int, ...))count(PRCTL))(option, a[0], a[1], a[2], a[3]);
}

long syscall(long number, ...)
{
    unsigned long a[6];
    va_list ap;

    va_start(ap, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(ap, unsigned long);
    va_end(ap);
    return ((long (*)(long, ...))count(SYSCALL))(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

int clone(int (*function)(void *), void *stack, int flags, void *arg, ...)
{
    return ((int (*)(int (*)(void *), void *, int, void *, ...))count(CLONE))(
        function, stack, flags, arg, NULL, NULL, NULL);
}

int mlock(const void *p, size_t bytes)
{
    return ((int (*)(const void *, size_t))count(MLOCK))(p, bytes);
}

int pkey_mprotect(void *p, size_t bytes, int access, int key)
{
    return ((int (*)(void *, size_t, int, int))count(PKEY_MPROTECT))(p, bytes, access, key);
}

int dlclose(void *handle)
{
    return ((int (*)(void *))count(DLCLOSE))(handle);
}
