/* SPDX-License-Identifier: Apache-2.0 */
/* Looks symbols up in loaded objects; see loader.h. String functions of libc are not called: before
 * the loader has relocated this library, the call would end in nothing. */
#include "alloc/os/loader.h"

#include "alloc/base/atomic.h"
#include "alloc/base/syscall.h"

#include <fcntl.h>
#include <link.h>
#include <stddef.h>
#include <stdint.h>

#define NONE ((void *)SA_LOADER_NONE)

extern struct r_debug _r_debug SA_WEAK; /* missing where the loader is */
extern ElfW(Dyn) _DYNAMIC[] SA_WEAK SA_HIDDEN;

/* libc's dlsym in a static program, which has no tables. */
extern void *__dlsym(void *handle, const char *name) SA_WEAK;

/* Atomic: every thread stores the same values. own_map is stored first, and read if libc_map is. */
static const struct link_map *own_map, *libc_map;

/* The tables of an object; all but the symbols and their names may be missing. */
struct tables {
    uintptr_t base;
    const ElfW(Sym) * symbols;
    const char *names;
    const uint32_t *hash, *gnu_hash;
    const uint16_t *versions;
    const ElfW(Verdef) * definitions;
    const char *soname; /* NULL: none */
};

SA_INLINE bool same(const char *a, const char *b)
{
    for (; *a == *b; a++, b++)
        if (!*a)
            return true;
    return false;
}

/* Finds the tables. The loader relocates the addresses in the section, where it can write to it. */
static bool read_tables(const struct link_map *map, struct tables *ret)
{
    uintptr_t soname = 0;
    bool named = false;

    *ret = (struct tables){.base = map->l_addr};
    for (const ElfW(Dyn) *d = map->l_ld; d && d->d_tag != DT_NULL; d++) {
        uintptr_t value = d->d_un.d_ptr;
        const void *at = (const void *)(value < map->l_addr ? value + map->l_addr : value);

        switch (d->d_tag) {
        case DT_SYMTAB:
            ret->symbols = at;
            break;
        case DT_STRTAB:
            ret->names = at;
            break;
        case DT_HASH:
            ret->hash = at;
            break;
        case DT_GNU_HASH:
            ret->gnu_hash = at;
            break;
        case DT_VERSYM:
            ret->versions = at;
            break;
        case DT_VERDEF:
            ret->definitions = at;
            break;
        case DT_SONAME:
            soname = value;
            named = true;
            break;
        default:
            break;
        }
    }
    if (named && ret->names)
        ret->soname = ret->names + soname;
    return ret->symbols && ret->names;
}

/* Returns the name of a version of the object, or "". */
static const char *version_name(const struct tables *t, unsigned index)
{
    const ElfW(Verdef) *d = t->definitions;

    while (d) {
        if (d->vd_ndx == index && !(d->vd_flags & VER_FLG_BASE)) {
            const ElfW(Verdaux) *first = (const void *)((const char *)d + d->vd_aux);

            return t->names + first->vda_name;
        }
        d = d->vd_next ? (const void *)((const char *)d + d->vd_next) : NULL;
    }
    return "";
}

/* Whether the symbol defines the name, with the version if one is asked for. An object without
 * versions has every one. */
static bool matches(const struct tables *t, uint32_t i, const char *name, const char *version)
{
    const ElfW(Sym) *s = &t->symbols[i];

    if (s->st_shndx == SHN_UNDEF || !s->st_value || ELF64_ST_TYPE(s->st_info) > STT_FUNC ||
        !same(t->names + s->st_name, name))
        return false;
    if (!t->versions)
        return true;
    if (!version)
        return !(t->versions[i] & 0x8000); /* not hidden: the default version */
    return same(version_name(t, t->versions[i] & 0x7fff), version);
}

SA_INLINE void *find_by_gnu_hash(const struct tables *t, const char *name, const char *version)
{
    const uint32_t *head = t->gnu_hash, *buckets, *chains;
    const ElfW(Addr) *bloom = (const void *)(head + 4);
    const unsigned bits = sizeof(*bloom) * 8;
    uint32_t h = 5381, i;
    ElfW(Addr) word;

    for (const char *c = name; *c; c++)
        h = h * 33 + (unsigned char)*c;
    word = bloom[h / bits & (head[2] - 1)];
    if (!(word >> h % bits & word >> (h >> head[3]) % bits & 1))
        return NULL;
    buckets = (const void *)(bloom + head[2]);
    chains = buckets + head[0];
    i = buckets[h % head[0]];
    if (i < head[1])
        return NULL;
    for (;; i++) {
        uint32_t other = chains[i - head[1]];

        if ((other | 1) == (h | 1) && matches(t, i, name, version))
            return (void *)(t->base + t->symbols[i].st_value);
        if (other & 1)
            return NULL;
    }
}

SA_INLINE void *find_by_hash(const struct tables *t, const char *name, const char *version)
{
    for (uint32_t i = 1; i < t->hash[1]; i++)
        if (matches(t, i, name, version))
            return (void *)(t->base + t->symbols[i].st_value);
    return NULL;
}

void *sa_loader_definition(const struct link_map *map, const char *name, const char *version)
{
    struct tables t;

    if (!map || !read_tables(map, &t))
        return NULL;
    if (t.gnu_hash)
        return find_by_gnu_hash(&t, name, version);
    return t.hash ? find_by_hash(&t, name, version) : NULL;
}

static bool has_soname(const struct link_map *map, const char *name)
{
    struct tables t;

    return read_tables(map, &t) && t.soname && same(t.soname, name);
}

bool sa_loader_relocated(void)
{
    static const void *volatile self = (const void *)&self;

    return self == (const void *)&self;
}

/* Returns the program's table of segments from the kernel's list, which a file has, too: libc's
 * getauxval cannot be called yet. *ret_count: how many. */
static const ElfW(Phdr) * program_segments(size_t *ret_count)
{
    const ElfW(Phdr) *segments = NULL;
    ElfW(auxv_t) list[64];
    long fd = sa_syscall(SYS_openat, AT_FDCWD, "/proc/self/auxv", O_RDONLY | O_CLOEXEC, 0);
    long bytes = sa_syscall_failed(fd) ? -1 : sa_syscall(SYS_read, fd, list, sizeof(list));

    if (!sa_syscall_failed(fd))
        sa_syscall(SYS_close, fd);
    *ret_count = 0;
    for (long i = 0; i < bytes / (long)sizeof(list[0]); i++) {
        if (list[i].a_type == AT_PHDR)
            segments = (const void *)list[i].a_un.a_val;
        else if (list[i].a_type == AT_PHNUM)
            *ret_count = list[i].a_un.a_val;
    }
    return segments;
}

/* Finds the loader's list by the program's DT_DEBUG, which is set before any object is relocated.
 */
static const struct link_map *first_before_relocation(void)
{
    size_t count;
    const ElfW(Phdr) *segments = program_segments(&count);
    const ElfW(Dyn) *d = NULL;
    uintptr_t base = 0;

    if (!segments)
        return NULL;
    for (size_t i = 0; i < count; i++)
        if (segments[i].p_type == PT_PHDR)
            base = (uintptr_t)segments - segments[i].p_vaddr;
    for (size_t i = 0; i < count; i++)
        if (segments[i].p_type == PT_DYNAMIC)
            d = (const void *)(base + segments[i].p_vaddr);
    for (; d && d->d_tag != DT_NULL; d++)
        if (d->d_tag == DT_DEBUG && d->d_un.d_ptr)
            return ((const struct r_debug *)d->d_un.d_ptr)->r_map;
    return NULL;
}

const struct link_map *sa_loader_first(void)
{
    if (!sa_loader_relocated())
        return first_before_relocation();
    return &_r_debug ? _r_debug.r_map : NULL;
}

/* Walks a namespace as far as its libc, which it returns. *ret_own: this library, or NULL if it is
 * not on the way. */
static const struct link_map *search_namespace(const struct link_map *map,
                                               const struct link_map **ret_own)
{
    *ret_own = NULL;
    for (; map && !has_soname(map, "libc.so.6"); map = map->l_next)
        if (map->l_ld == _DYNAMIC)
            *ret_own = map;
    return map;
}

/* Returns the libc of the other namespace that this library is in; NULL: there is none, or the
 * loader does not show it. */
SA_INLINE const struct link_map *search_other_namespaces(void)
{
#if __GLIBC_PREREQ(2, 35) && !defined(SA_OLD_GLIBC)
    const struct r_debug_extended *r = (const void *)&_r_debug;
    const struct link_map *own, *libc;

    SA_OPAQUE(r); /* the compiler knows _r_debug to be shorter */
    if (r->base.r_version < 2)
        return NULL;
    while ((r = r->r_next)) {
        libc = search_namespace(r->base.r_map, &own);
        if (libc && own)
            return libc;
    }
#endif
    return NULL;
}

/* Returns libc's record and stores this library's, by a walk of the list if they are not known. A
 * walk before relocation may miss this library and is not remembered. */
static const struct link_map *search(const struct link_map **ret_own)
{
    const struct link_map *libc = sa_load_acquire(&libc_map), *other = NULL;
    bool relocated = sa_loader_relocated();

    *ret_own = libc ? sa_load_relaxed(&own_map) : NULL;
    if (libc || (relocated && !_DYNAMIC))
        return libc;
    libc = search_namespace(sa_loader_first(), ret_own);
    if (!libc || !relocated)
        return libc;
    other = *ret_own ? NULL : search_other_namespaces();
    libc = other ? other : libc;
    sa_store_relaxed(&own_map, *ret_own);
    sa_store_release(&libc_map, libc);
    return libc;
}

const struct link_map *sa_loader_own(void)
{
    const struct link_map *own;

    search(&own);
    return own;
}

const struct link_map *sa_loader_libc(void)
{
    const struct link_map *own;

    return search(&own);
}

void *sa_loader_libc_function(const char *name, const char *version)
{
    void *f = sa_loader_definition(sa_loader_libc(), name, version);

#if !__GLIBC_PREREQ(2, 34)
    for (map = sa_loader_first(); !f && map; map = map->l_next)
        if (has_soname(map, "libdl.so.2"))
            return sa_loader_definition(map, name, version);
#endif
    return f;
}

/* Another copy of this library, which has functions that no other library has. */
SA_INLINE bool is_copy(const struct link_map *map)
{
    return sa_loader_definition(map, "salloc_version", NULL);
}

static void *search_interposer(const char *name)
{
    const struct link_map *own = sa_loader_own(), *libc = sa_loader_libc();
    const struct link_map *map = own ? own->l_next : NULL;
    void *f = NULL;

    for (; map && map != libc && !f; map = map->l_next) {
        f = sa_loader_definition(map, name, NULL);
        if (f && (is_copy(map) || has_soname(map, "libdl.so.2")))
            f = NULL;
    }
    return f;
}

void *sa_loader_interposer(void **cache, const char *name)
{
    void *f = sa_load_relaxed(cache);

    if (f)
        return f == NONE ? NULL : f;
    f = search_interposer(name);
    if (sa_loader_relocated() && sa_loader_libc())
        sa_store_relaxed(cache, f ? f : NONE);
    return f;
}

void *sa_loader_dlsym(void *handle, const char *name)
{
    static void *found; /* atomic, relaxed: every thread stores the same address */
    void *(*f)(void *, const char *) = (void *(*)(void *, const char *))sa_load_relaxed(&found);

    if (!f) {
        f = (void *(*)(void *, const char *))sa_loader_libc_function("dlsym", NULL);
        f = f ? f : __dlsym;
        sa_store_relaxed(&found, (void *)f);
    }
    return f ? f(handle, name) : NULL;
}
