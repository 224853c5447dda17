/* SPDX-License-Identifier: Apache-2.0 */
/*
 * No pointer can cross allocators: every function of the malloc family that libc exports, whatever
 * its name, resolves to libsalloc.so, and works; and libsalloc.so exports nothing that is not its
 * business.
 */
#include "test/outside/check.h"

#include <elf.h>
#include <errno.h>
#include <link.h>

static const char *const family[] = {
    "malloc",         "free",         "cfree",        "calloc",
    "realloc",        "reallocarray", "memalign",     "aligned_alloc",
    "posix_memalign", "valloc",       "pvalloc",      "malloc_usable_size",
    "malloc_trim",    "malloc_info",  "malloc_stats", "mallopt",
    "mallinfo",       "mallinfo2",    "free_sized",   "free_aligned_sized",
};

/* Whether a name is one of the family, also with libc's prefixes. */
static bool is_family(const char *name)
{
    static const char *const prefixes[] = {"", "__", "__libc_"};

    for (size_t k = 0; k < 3; k++) {
        size_t n = strlen(prefixes[k]);

        if (strncmp(name, prefixes[k], n) != 0)
            continue;
        for (size_t i = 0; i < sizeof(family) / sizeof(family[0]); i++)
            if (strcmp(name + n, family[i]) == 0)
                return true;
    }
    return false;
}

/* jemalloc's functions with flags: mallocx and its kin. */
static bool is_flagged(const char *name)
{
    const char *end = strstr(name, "allocx");

    return end && end[6] == '\0' && end - name <= 2;
}

static bool is_salloc(const void *address)
{
    Dl_info info;

    return address && dladdr(address, &info) && strstr(info.dli_fname, "libsalloc.so");
}

/* One more than the highest index in the dynamic symbol table, from its hash table. */
static size_t symbol_count(const uint32_t *hash)
{
    uint32_t buckets = hash[0], first = hash[1], bloom = hash[2], max = 0;
    const uint32_t *bucket = hash + 4 + bloom * (sizeof(ElfW(Addr)) / 4);
    const uint32_t *chain = bucket + buckets;

    for (uint32_t i = 0; i < buckets; i++)
        max = bucket[i] > max ? bucket[i] : max;
    if (max < first)
        return first;
    while (!(chain[max - first] & 1))
        max++;
    return max + 1;
}

typedef void visit(const char *name, const ElfW(Sym) * symbol);

static int objects_found;

/* Calls visit for each function that an object defines. */
static void walk(const char *object, visit *fn)
{
    const struct link_map *map;
    void *self = dlopen(NULL, RTLD_LAZY);

    REQUIRE(self && dlinfo(self, RTLD_DI_LINKMAP, (void *)&map) == 0);
    for (; map; map = map->l_next) {
        const ElfW(Sym) *symbols = NULL;
        const char *names = NULL;
        const uint32_t *hash = NULL;

        if (!strstr(map->l_name, object))
            continue;
        for (const ElfW(Dyn) *d = map->l_ld; d->d_tag != DT_NULL; d++) {
            if (d->d_tag == DT_SYMTAB)
                symbols = (const void *)d->d_un.d_ptr;
            else if (d->d_tag == DT_STRTAB)
                names = (const char *)d->d_un.d_ptr;
            else if (d->d_tag == DT_GNU_HASH)
                hash = (const void *)d->d_un.d_ptr;
        }
        if (!symbols || !names || !hash)
            continue;
        objects_found++;
        for (size_t i = 1, n = symbol_count(hash); i < n; i++)
            if (symbols[i].st_shndx != SHN_UNDEF &&
                (ELF64_ST_TYPE(symbols[i].st_info) == STT_FUNC ||
                 ELF64_ST_TYPE(symbols[i].st_info) == STT_GNU_IFUNC))
                fn(names + symbols[i].st_name, &symbols[i]);
    }
    dlclose(self);
}

static int family_seen;

static void libc_exports(const char *name, const ElfW(Sym) * symbol)
{
    (void)symbol;
    if (!is_family(name))
        return;
    family_seen++;
    CHECK_SAYS(is_salloc(dlsym(RTLD_DEFAULT, name)), "libc's own %s answers", name);
}

/* Functions that are no allocation, which are exported for what doc/compatibility.md says. */
static bool is_other(const char *name)
{
    static const char *const names[] = {
        "dlopen", "dlclose", "dlmopen", "dlsym",  "dlvsym", "prctl",    "vfork",         "__vfork",
        "clone",  "madvise", "mlock",   "mlock2", "mbind",  "mprotect", "pkey_mprotect", "syscall"};

    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

static void salloc_exports(const char *name, const ElfW(Sym) * symbol)
{
    (void)symbol;
    CHECK_SAYS(is_family(name) || strncmp(name, "salloc_", 7) == 0 ||
                   strncmp(name, "_Zn", 3) == 0 || strncmp(name, "_Zd", 3) == 0 ||
                   strncmp(name, "__size_returning_new", 20) == 0 || is_flagged(name) ||
                   is_other(name),
               "libsalloc.so exports %s", name);
}

/* Every name gives memory that every name takes back. */
static void test_libc_names(void)
{
    static const char *const one[] = {"malloc",        "__libc_malloc", "valloc",
                                      "__libc_valloc", "pvalloc",       "__libc_pvalloc"};
    static const char *const two[] = {"calloc", "__libc_calloc", "memalign", "__libc_memalign",
                                      "aligned_alloc"};
    static const char *const back[] = {"free", "cfree", "__libc_free"};
    void (*release[3])(void *);
    void *(*again)(void *, size_t) =
        (void *(*)(void *, size_t))dlsym(RTLD_DEFAULT, "__libc_realloc");
    int n = 0;

    for (int i = 0; i < 3; i++)
        release[i] = (void (*)(void *))dlsym(RTLD_DEFAULT, back[i]);
    REQUIRE(again);
    if (!release[1]) /* libc has none any more: nothing calls it */
        release[1] = release[0];
    REQUIRE(release[0] && release[2]);
    for (size_t size = 16; size < 2000000; size *= 8) {
        for (size_t i = 0; i < sizeof(one) / sizeof(one[0]); i++) {
            void *(*f)(size_t) = (void *(*)(size_t))dlsym(RTLD_DEFAULT, one[i]);
            char *p;

            REQUIRE(f);
            p = f(size);
            REQUIRE(p);
            memset(p, 1, size);
            p = again(p, size * 2);
            REQUIRE(p);
            CHECK(p[size - 1] == 1);
            release[n++ % 3](p);
        }
        for (size_t i = 0; i < sizeof(two) / sizeof(two[0]); i++) {
            void *(*f)(size_t, size_t) = (void *(*)(size_t, size_t))dlsym(RTLD_DEFAULT, two[i]);
            char *p;

            REQUIRE(f);
            p = f(64, size);
            REQUIRE(p);
            memset(p, 1, size);
            release[n++ % 3](p);
        }
    }
}

/* A function of salloc with this name. */
static void *ours(const char *name)
{
    void *address = dlsym(RTLD_DEFAULT, name);

    CHECK_SAYS(is_salloc(address), "%s", name);
    REQUIRE(address);
    return address;
}

/* A product that overflows fails with ENOMEM and leaves the block as it is. Any other product is a
 * realloc. */
static void test_libc_reallocarray(void)
{
    void *(*again)(void *, size_t, size_t) =
        (void *(*)(void *, size_t, size_t))ours("__libc_reallocarray");
    char *p = again(NULL, 3, 100);

    REQUIRE(p);
    CHECK(malloc_usable_size(p) >= 300);
    memset(p, 7, 300);
    errno = 0;
    CHECK(!again(p, SIZE_MAX / 2 + 1, 2) && errno == ENOMEM); /* would wrap around to 0 */
    errno = 0;
    CHECK(!again(p, SIZE_MAX / 16 + 2, 16) && errno == ENOMEM); /* and to 16 */
    p = again(p, 100000, 5);
    REQUIRE(p);
    CHECK(malloc_usable_size(p) >= 500000);
    for (int i = 0; i < 300; i++)
        CHECK(p[i] == 7);
    free(p);
}

/* Errors are returned. They leave the pointer alone, and EINVAL leaves errno alone. */
static void test_libc_posix_memalign(void)
{
    static const size_t wrong[] = {0, 1, 4, 24, 4097, SIZE_MAX};
    int (*aligned)(void **, size_t, size_t) =
        (int (*)(void **, size_t, size_t))ours("__posix_memalign");
    void *p = &p;

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        errno = 77;
        CHECK_SAYS(aligned(&p, wrong[i], 100) == EINVAL && p == &p && errno == 77, "%zu", wrong[i]);
    }
    CHECK(aligned(&p, 64, SIZE_MAX - 4096) == ENOMEM && p == &p);
    for (size_t align = sizeof(void *); align <= 1 << 20; align *= 2) {
        REQUIRE(aligned(&p, align, 1000) == 0);
        CHECK_SAYS((uintptr_t)p % align == 0 && malloc_usable_size(p) >= 1000, "%zu", align);
        memset(p, 1, 1000);
        free(p);
    }
}

/* __libc_mallinfo counts a block of malloc's until __libc_cfree takes it back. */
static void test_libc_reports(void)
{
    struct mallinfo (*info)(void) = (struct mallinfo(*)(void))ours("__libc_mallinfo");
    void (*release)(void *) = (void (*)(void *))ours("__libc_cfree");
    int (*tune)(int, int) = (int (*)(int, int))ours("__libc_mallopt");
    const int bytes = 64 << 20;
    int before = info().uordblks, during, after;
    char *p = malloc((size_t)bytes);

    REQUIRE(p);
    p[0] = p[bytes - 1] = 1;
    during = info().uordblks;
    release(p);
    after = info().uordblks;
    CHECK_SAYS(during - before >= bytes && during - before <= bytes / 8 * 9, "%d, then %d", before,
               during);
    CHECK_SAYS(during - after >= bytes, "%d, then %d", during, after);
    release(NULL);
    CHECK(tune(M_ARENA_MAX, 1) == 1 && tune(M_MMAP_THRESHOLD, 1 << 20) == 1);
    CHECK(tune(12345, 1) == 1); /* as glibc */
}

int main(void)
{
    check_begin();
    walk("/libc.so", libc_exports);
    REQUIRE(objects_found == 1);
    /* malloc free calloc realloc memalign valloc pvalloc aligned_alloc posix_memalign and the
     * reports */
    REQUIRE(family_seen >= 15);
    for (size_t i = 0; i < sizeof(family) / sizeof(family[0]); i++) {
        const void *address = dlsym(RTLD_DEFAULT, family[i]);

        CHECK_SAYS(is_salloc(address), "%s", family[i]);
    }
    walk("libsalloc.so", salloc_exports);
    REQUIRE(objects_found == 2);
    test_libc_names();
    test_libc_reallocarray();
    test_libc_posix_memalign();
    test_libc_reports();
    return check_end();
}
