/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A library that replaces dlsym, as game overlays, GPU sharers and tracers do, and passes on what
 * it does not know. It finds libc's dlsym by 0  dlvsym with RTLD_NEXT    1  dlvsym with a handle of
 * libc    2  libc's own table and replaces dlvsym and dlopen, too, if WRAP_MORE is defined.
 */
#include "test/outside/lookup/find.h"

#include <elf.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

extern unsigned wrapper_calls(void);
static unsigned calls; /* not atomic: the program has one thread */

unsigned wrapper_calls(void)
{
    return calls;
}

/* Without any function of the loader's: as preloads do that fear each other. */
static void *by_table(const char *name)
{
    for (struct link_map *map = _r_debug.r_map; map; map = map->l_next) {
        const ElfW(Sym) *symbols = NULL;
        const char *names = NULL;

        if (!strstr(map->l_name, "libc.so") && !strstr(map->l_name, "libdl.so"))
            continue;
        for (ElfW(Dyn) *d = map->l_ld; d->d_tag; d++) {
            if (d->d_tag == DT_SYMTAB)
                symbols = (const void *)d->d_un.d_ptr;
            if (d->d_tag == DT_STRTAB)
                names = (const void *)d->d_un.d_ptr;
        }
        for (const ElfW(Sym) *s = symbols; (const char *)s < names; s++)
            if (s->st_value && strcmp(names + s->st_name, name) == 0)
                return (void *)(map->l_addr + s->st_value);
    }
    return NULL;
}

static void *find_real(const char *name)
{
    static void *(*versioned)(void *, const char *, const char *);

    if (WRAP_HOW == 2)
        return by_table(name);
    if (!versioned)
#ifdef WRAP_MORE
        versioned = (void *(*)(void *, const char *, const char *))by_table("dlvsym");
#else
        versioned = dlvsym;
#endif
    return versioned(WRAP_HOW == 0 ? RTLD_NEXT : dlopen("libc.so.6", RTLD_LAZY), name,
                     BASE_VERSION);
}

void *dlsym(void *handle, const char *name)
{
    static void *(*real)(void *, const char *);

    calls++;
    if (!real)
        real = (void *(*)(void *, const char *))find_real("dlsym");
    if (strcmp(name, "glXSwapBuffers") == 0)
        return (void *)wrapper_calls;
    return real(handle, name);
}

#ifdef WRAP_MORE
void *dlvsym(void *handle, const char *name, const char *version)
{
    static void *(*real)(void *, const char *, const char *);

    if (!real)
        real = (void *(*)(void *, const char *, const char *))by_table("dlvsym");
    return real(handle, name, version);
}

void *dlopen(const char *path, int flags)
{
    static void *(*real)(const char *, int);

    if (!real)
        real = (void *(*)(const char *, int))by_table("dlopen");
    return real(path, flags);
}
#endif
