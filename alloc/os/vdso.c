/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds functions in the vDSO; see vdso.h. The vDSO is an ELF image that the kernel has mapped. Its
 * dynamic section names the table of symbols, their names, and a hash table, from which their
 * number follows.
 */
#include "alloc/os/vdso.h"

#include "alloc/base/attrs.h"
#include "alloc/base/bits.h"
#include "alloc/base/syscall.h"
#include "alloc/os/filter.h"

#include <errno.h>
#include <link.h>
#include <stddef.h>
#include <string.h>
#include <sys/auxv.h>

/* Under another name a function is not found, and the kernel is called. */
#if defined(__aarch64__)
#define NAME_CLOCK "__kernel_clock_gettime"
#define NAME_CPU   "__kernel_getcpu"
#else
#define NAME_CLOCK "__vdso_clock_gettime"
#define NAME_CPU   "__vdso_getcpu"
#endif

typedef long (*clock_function)(clockid_t, struct timespec *);
typedef long (*cpu_function)(unsigned *, unsigned *, void *);

/* NULL: the kernel is called instead. Written by start-up, const afterwards. */
static SA_START_DATA struct {
    clock_function clock;
    cpu_function cpu;
} vdso;

struct image {
    uintptr_t base; /* added to the addresses in the image */
    const ElfW(Sym) * symbols;
    const char *names;
    const uint32_t *hash, *gnu_hash; /* one of them may be NULL */
};

/* Finds the tables of the image. False: one is missing. */
static bool read_image(const ElfW(Ehdr) * header, struct image *ret)
{
    const ElfW(Phdr) *segment = (const void *)((uintptr_t)header + header->e_phoff);
    const ElfW(Dyn) *dynamic = NULL;
    bool loaded = false;

    for (int i = 0; i < header->e_phnum; i++, segment++) {
        if (segment->p_type == PT_LOAD && !loaded) {
            ret->base = (uintptr_t)header + segment->p_offset - segment->p_vaddr;
            loaded = true;
        } else if (segment->p_type == PT_DYNAMIC) {
            dynamic = (const void *)((uintptr_t)header + segment->p_offset);
        }
    }
    for (; loaded && dynamic && dynamic->d_tag != DT_NULL; dynamic++) {
        const void *at = (const void *)(ret->base + dynamic->d_un.d_ptr);

        if (dynamic->d_tag == DT_SYMTAB)
            ret->symbols = at;
        else if (dynamic->d_tag == DT_STRTAB)
            ret->names = at;
        else if (dynamic->d_tag == DT_HASH)
            ret->hash = at;
        else if (dynamic->d_tag == DT_GNU_HASH)
            ret->gnu_hash = at;
    }
    return ret->symbols && ret->names && (ret->hash || ret->gnu_hash);
}

/* Returns the number of symbols. */
static uint32_t count_symbols(const struct image *image)
{
    const uint32_t *gnu = image->gnu_hash, *buckets, *chains;
    uint32_t last = 0;

    if (image->hash)
        return image->hash[1];
    buckets = gnu + 4 + gnu[2] * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
    chains = buckets + gnu[0];
    for (uint32_t i = 0; i < gnu[0]; i++)
        last = sa_max(last, buckets[i]);
    if (last < gnu[1])
        return gnu[1]; /* all buckets are empty */
    while (!(chains[last - gnu[1]] & 1))
        last++;
    return last + 1;
}

/* Returns the address of a function, or NULL. */
static const void *find(const struct image *image, uint32_t symbols, const char *name)
{
    for (uint32_t i = 0; i < symbols; i++) {
        const ElfW(Sym) *s = &image->symbols[i];

        if (s->st_shndx != SHN_UNDEF && strcmp(image->names + s->st_name, name) == 0)
            return (const void *)(image->base + s->st_value);
    }
    return NULL;
}

void sa_vdso_init(void)
{
    const ElfW(Ehdr) *header = (const void *)getauxval(AT_SYSINFO_EHDR);
    struct image image = {0};
    uint32_t symbols;

    if (!header || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 || !read_image(header, &image))
        return;
    symbols = count_symbols(&image);
    vdso.clock = (clock_function)find(&image, symbols, NAME_CLOCK);
    vdso.cpu = (cpu_function)find(&image, symbols, NAME_CPU);
}

uint64_t sa_vdso_clock_ns(clockid_t clock)
{
    struct timespec ts = {0, 0};

    if (SA_UNLIKELY(!vdso.clock) || SA_UNLIKELY(vdso.clock(clock, &ts) != 0))
        sa_syscall(SYS_clock_gettime, clock, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

SA_RARE long sa_vdso_cpu(unsigned *ret_cpu, unsigned *ret_node)
{
    if (vdso.cpu)
        return vdso.cpu(ret_cpu, ret_node, NULL);
    return sa_filtered() ? -ENOSYS : sa_syscall(SYS_getcpu, ret_cpu, ret_node, NULL);
}
