/* SPDX-License-Identifier: Apache-2.0 */
/* Finds private operators; see private_operators.h. State: results for a few objects. */
#include "sampling/symbolize/private_operators.h"

#include "alloc/base/atomic.h"
#include "alloc/base/rng.h"
#include "alloc/os/sys.h"
#include "sampling/symbolize/mappings.h"

#include <link.h>
#include <string.h>

#define RESULTS 16 /* objects whose results are remembered */

/* Bits of a remembered result; the others identify the object. */
#define RESULT_KNOWN   2u
#define RESULT_PRIVATE 1u

/* The tables by which the loader binds an object. */
struct tables {
    const ElfW(Sym) * symbols;
    const char *names;
    const ElfW(Rela) * relocations[2]; /* data and functions */
    size_t bytes[2];
};

static const ElfW(Dyn) * find_dynamic(const struct dl_phdr_info *info)
{
    for (unsigned i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            return (const ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    return NULL;
}

static void find_tables(const struct dl_phdr_info *info, struct tables *ret)
{
    memset(ret, 0, sizeof(*ret));
    for (const ElfW(Dyn) *d = find_dynamic(info); d && d->d_tag != DT_NULL; d++) {
        uintptr_t p = d->d_un.d_ptr;

        p = p < info->dlpi_addr ? info->dlpi_addr + p : p; /* most loaders relocate it in place */
        switch (d->d_tag) {
        case DT_SYMTAB:
            ret->symbols = (const ElfW(Sym) *)p;
            break;
        case DT_STRTAB:
            ret->names = (const char *)p;
            break;
        case DT_RELA:
            ret->relocations[0] = (const ElfW(Rela) *)p;
            break;
        case DT_RELASZ:
            ret->bytes[0] = d->d_un.d_val;
            break;
        case DT_JMPREL:
            ret->relocations[1] = (const ElfW(Rela) *)p;
            break;
        case DT_PLTRELSZ:
            ret->bytes[1] = d->d_un.d_val;
            break;
        default:
            break;
        }
    }
}

static bool has_prefix(const char *name, const char *prefix)
{
    return strncmp(name, prefix, strlen(prefix)) == 0;
}

/* What an object asks the loader for. */
enum wanted {
    WANTS_CXX = 1,       /* the runtime of C++ */
    WANTS_OPERATORS = 2, /* an operator new or delete, perhaps one that it also defines */
};

static unsigned wanted_by(const char *name)
{
    if (has_prefix(name, "_Znw") || has_prefix(name, "_Zna") || has_prefix(name, "_Zdl") ||
        has_prefix(name, "_Zda"))
        return WANTS_OPERATORS;
    return strcmp(name, "__gxx_personality_v0") == 0 ? WANTS_CXX : 0;
}

/* Returns bits of enum wanted. */
static unsigned find_wanted(const struct tables *t)
{
    unsigned wanted = 0;

    if (!t->symbols || !t->names)
        return 0;
    for (unsigned k = 0; k < 2; k++) {
        for (size_t i = 0; t->relocations[k] && i < t->bytes[k] / sizeof(ElfW(Rela)); i++) {
            size_t symbol = ELF64_R_SYM(t->relocations[k][i].r_info);

            if (symbol)
                wanted |= wanted_by(t->names + t->symbols[symbol].st_name);
        }
    }
    return wanted;
}

/* True if memory has the name of the type std::bad_alloc, which only an object with a copy of the
 * runtime of C++ has. Names of symbols for it begin with _ZTI and the like. */
static bool has_bad_alloc(const char *start, size_t bytes)
{
    static const char name[] = "St9bad_alloc"; /* and the 0 behind it */
    const char *end = start + bytes, *at = start;

    while ((size_t)(end - at) >= sizeof(name) &&
           (at = memchr(at, name[0], (size_t)(end - at) - sizeof(name) + 1))) {
        if (memcmp(at, name, sizeof(name)) == 0 &&
            (at - start < 4 || memcmp(at - 4, "_ZT", 3) != 0))
            return true;
        at++;
    }
    return false;
}

static bool holds_runtime(const struct dl_phdr_info *info)
{
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *load = &info->dlpi_phdr[i];
        const char *start = (const char *)info->dlpi_addr + load->p_vaddr;

        if (load->p_type == PT_LOAD && (load->p_flags & (PF_R | PF_W)) == PF_R &&
            sa_sys_is_readable(start) && has_bad_alloc(start, load->p_filesz))
            return true;
    }
    return false;
}

static bool has_address(const struct dl_phdr_info *info, uintptr_t address)
{
    for (unsigned i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD &&
            address - info->dlpi_addr - info->dlpi_phdr[i].p_vaddr < info->dlpi_phdr[i].p_memsz)
            return true;
    return false;
}

/*
 * Looks at an object. Its operators are its own if it is C++, by the runtime that it holds or asks
 * for, and does not ask the loader for any operator. The object with this library in it has this
 * library's.
 */
static bool look_at(const struct dl_phdr_info *info)
{
    struct tables tables;
    unsigned wanted;

    if (has_address(info, (uintptr_t)sa_private_operators_at))
        return false;
    find_tables(info, &tables);
    wanted = find_wanted(&tables);
    return !(wanted & WANTS_OPERATORS) && (wanted & WANTS_CXX || holds_runtime(info));
}

bool sa_private_operators_at(uintptr_t pc)
{
    static uint64_t results[RESULTS]; /* atomic, relaxed; one word each, so that none is torn */
    struct dl_phdr_info info;
    uint64_t key, known, *result;
    bool is_private;

    if (!sa_mappings_info(pc - 1, &info))
        return true;
    key = sa_rng_mix((uintptr_t)info.dlpi_phdr) ^ sa_rng_mix((uintptr_t)find_dynamic(&info) + 1);
    result = &results[key >> 32 & (RESULTS - 1)];
    key = (key & ~(uint64_t)RESULT_PRIVATE) | RESULT_KNOWN;
    known = sa_load_relaxed(result);
    if ((known & ~(uint64_t)RESULT_PRIVATE) == key)
        return known & RESULT_PRIVATE;
    is_private = look_at(&info);
    sa_store_relaxed(result, key | (is_private ? RESULT_PRIVATE : 0));
    return is_private;
}

static int look_for_one(struct dl_phdr_info *info, size_t bytes, void *arg)
{
    (void)bytes;
    (void)arg;
    return look_at(info);
}

bool sa_private_operators_anywhere(void)
{
    static bool found; /* atomic, relaxed */

    if (!sa_load_relaxed(&found) && sa_mappings_each(look_for_one, NULL))
        sa_store_relaxed(&found, true);
    return sa_load_relaxed(&found);
}
