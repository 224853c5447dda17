/* SPDX-License-Identifier: Apache-2.0 */
/* Finds loaded objects, their identities and their frame descriptions (unwind_object.h). */
#include "sampling/stack/unwind_object.h"

#include "sampling/stack/unwind.h"

#ifdef SA_UNWIND_FAST

#include "alloc/base/atomic.h"
#include "alloc/base/rng.h"
#include "sampling/stack/loaded_object.h"
#include "sampling/stack/unwind_entry.h"
#include "sampling/stack/unwind_pages.h"

#include <elf.h>
#include <link.h>
#include <string.h>
#include <unistd.h>

#define HEADER_BYTES 4096 /* bytes behind the ELF header that are mapped with it: one page */

/*
 * The objects that are never unloaded: salloc itself, the program, and libc. Most frames are in
 * them, and they are looked up once. libc is the object with `environ`, unless the program has a
 * copy of that variable.
 */
enum { OWN, PROGRAM, LIBC, PERMANENT };

/* The states of an entry, in order. The thread that takes it from UNKNOWN to BEING_WRITTEN writes
 * it. */
enum { UNKNOWN, BEING_WRITTEN, KNOWN };

static struct {
    uint32_t state;                 /* atomic; KNOWN is published with release */
    struct sa_unwind_object object; /* const once the state is KNOWN */
} permanent[PERMANENT];

/*
 * The first SEEN other objects, with their build ids. An object at the same address, with its
 * tables at the same address and the same build id in the same place, is the same object. That
 * check takes 10 ns, and a search for the build id 40 ns. Entries are never removed.
 */
#define SEEN   8
#define ID_MAX 32 /* bytes of the longest build id that is kept */

static struct {
    uint32_t state; /* atomic, as in permanent[]; the rest is const once KNOWN */
    struct sa_unwind_object object;
    const uint8_t *id_at;
    uint8_t id_bytes;
    uint8_t id[ID_MAX];
} seen[SEEN];

struct build_id {
    const uint8_t *at; /* NULL: none */
    size_t bytes;
};

/* Returns the program headers. NULL: they are not in the first page, behind an ELF header. */
static const Elf64_Phdr *headers(const struct sa_unwind_object *o, unsigned *ret_count)
{
    const Elf64_Ehdr *e = (const Elf64_Ehdr *)o->start;

    if (memcmp(e->e_ident, ELFMAG, SELFMAG) != 0 || e->e_phentsize != sizeof(Elf64_Phdr) ||
        e->e_phoff % 8 || e->e_phoff > HEADER_BYTES ||
        e->e_phoff + e->e_phnum * sizeof(Elf64_Phdr) > HEADER_BYTES)
        return NULL;
    *ret_count = e->e_phnum;
    return (const Elf64_Phdr *)(o->start + e->e_phoff);
}

/* Returns a hash of the build id among the notes of [at, end), and stores where it is. 0: the notes
 * have none. */
static uint64_t note_identity(const uint8_t *at, const uint8_t *end, uint64_t align,
                              struct build_id *ret)
{
    while ((size_t)(end - at) >= sizeof(Elf64_Nhdr)) {
        const Elf64_Nhdr *n = (const Elf64_Nhdr *)at;
        const uint8_t *name = at + sizeof(*n);
        const uint8_t *desc = name + ((n->n_namesz + align - 1) & -align);
        uint64_t hash = n->n_descsz, word;

        if (n->n_namesz > 256 || n->n_descsz > 65536 || desc > end ||
            n->n_descsz > (size_t)(end - desc))
            return 0;
        if (n->n_type == NT_GNU_BUILD_ID && n->n_namesz == 4 && memcmp(name, "GNU", 4) == 0 &&
            n->n_descsz >= 8) {
            for (uint32_t i = 0; i + 4 <= n->n_descsz; i += (uint32_t)sizeof(word)) {
                word = 0;
                memcpy(&word, desc + i, n->n_descsz - i < 8 ? n->n_descsz - i : 8);
                hash = (hash ^ hash >> 32 ^ word) * SA_RNG_STEP;
            }
            *ret = (struct build_id){desc, n->n_descsz};
            return hash | 1;
        }
        at = desc + ((n->n_descsz + align - 1) & -align);
        if (at > end)
            return 0;
    }
    return 0;
}

static bool is_in(const struct sa_unwind_object *o, uintptr_t address)
{
    return address - o->start < o->end - o->start;
}

/* Returns whether the loader's record is that of the program: the first, without a name. */
static bool is_program(const struct link_map *map)
{
    return map && !map->l_prev && map->l_name && !*map->l_name;
}

bool sa_unwind_object_find_permanent(uintptr_t address, struct sa_unwind_object *ret)
{
    for (unsigned i = 0; i < PERMANENT; i++)
        if (sa_load_acquire(&permanent[i].state) == KNOWN && is_in(&permanent[i].object, address)) {
            *ret = permanent[i].object;
            return true;
        }
    return false;
}

/* Stores the object in permanent[]. False: it is not a permanent one. */
static bool remember_permanent(const struct sa_unwind_object *o, const struct link_map *map)
{
    uint32_t unknown = UNKNOWN;
    unsigned i;

    if (is_in(o, (uintptr_t)permanent))
        i = OWN;
    else if (is_program(map))
        i = PROGRAM;
    else if (is_in(o, (uintptr_t)&environ))
        i = LIBC;
    else
        return false;
    if (!sa_cas_acquire(&permanent[i].state, &unknown, BEING_WRITTEN))
        return true;
    permanent[i].object = *o;
    permanent[i].object.permanent = true;
    sa_store_release(&permanent[i].state, KNOWN);
    return true;
}

/* Returns the identity of an object, and stores where its build id is. A program without a build id
 * has one nevertheless, because it is never unloaded. 0: not known. */
static uint64_t identity(const struct sa_unwind_object *o, const struct link_map *map,
                         struct build_id *ret)
{
    unsigned count = 0;
    const Elf64_Phdr *p = headers(o, &count);
    uint64_t mapped = 0, hash = 0; /* bytes of the file that are mapped together with its headers */

    for (unsigned i = 0; i < count; i++)
        if (p[i].p_type == PT_LOAD && p[i].p_offset == 0 && o->bias + p[i].p_vaddr == o->start)
            mapped = p[i].p_filesz;
    for (unsigned i = 0; i < count && !hash; i++) {
        uint64_t align = p[i].p_align == 8 ? 8 : 4;

        if (p[i].p_type == PT_NOTE && p[i].p_vaddr % 4 == 0 && p[i].p_offset < mapped &&
            p[i].p_filesz <= mapped - p[i].p_offset)
            hash = note_identity((const uint8_t *)o->start + p[i].p_offset,
                                 (const uint8_t *)o->start + p[i].p_offset + p[i].p_filesz, align,
                                 ret);
    }
    if (!hash && is_program(map))
        hash = 1;
    return hash ? sa_rng_mix(hash + o->start) | 1 : 0;
}

/* Fills in the identity of an object that is in seen[]. False: it is not. */
static bool find_seen(struct sa_unwind_object *o)
{
    for (unsigned i = 0; i < SEEN; i++) {
        const struct sa_unwind_object *s = &seen[i].object;

        if (sa_load_acquire(&seen[i].state) == KNOWN && o->start == s->start && o->end == s->end &&
            o->bias == s->bias && o->eh_index == s->eh_index &&
            memcmp(seen[i].id_at, seen[i].id, seen[i].id_bytes) == 0) {
            o->identity = s->identity;
            return true;
        }
    }
    return false;
}

/* Stores the object in seen[], if an entry is free and the build id lies in the first page. */
static void remember_seen(const struct sa_unwind_object *o, struct build_id id)
{
    if (!id.at || id.bytes > ID_MAX || (uintptr_t)id.at + id.bytes > o->start + HEADER_BYTES)
        return;
    for (unsigned i = 0; i < SEEN; i++) {
        uint32_t unknown = UNKNOWN;

        if (!sa_cas_acquire(&seen[i].state, &unknown, BEING_WRITTEN))
            continue;
        seen[i].object = *o;
        seen[i].id_at = id.at;
        seen[i].id_bytes = (uint8_t)id.bytes;
        memcpy(seen[i].id, id.at, id.bytes);
        sa_store_release(&seen[i].state, KNOWN);
        return;
    }
}

bool sa_unwind_object_find(uintptr_t address, struct sa_unwind_object *ret)
{
    struct sa_loaded_object found;
    struct build_id id = {NULL, 0};

    if (sa_unwind_object_find_permanent(address, ret))
        return true;
    if (!sa_loaded_object_find(address, &found))
        return false;
    ret->start = found.start;
    ret->end = found.end;
    ret->bias = found.map ? found.map->l_addr : 0;
    ret->eh_index = found.eh_index;
    ret->permanent = false; /* sa_unwind_object_find_permanent says true next time */
    if (find_seen(ret))
        return true;
    ret->identity = identity(ret, found.map, &id);
    if (!remember_permanent(ret, found.map))
        remember_seen(ret, id);
    return true;
}

SA_RARE bool sa_unwind_object_has_code(const struct sa_unwind_object *o, uintptr_t address,
                                       uintptr_t bytes)
{
    unsigned count = 0;
    const Elf64_Phdr *p = headers(o, &count);

    for (unsigned i = 0; i < count; i++)
        if (p[i].p_type == PT_LOAD && (p[i].p_flags & (PF_X | PF_R)) == (PF_X | PF_R) &&
            address - (o->bias + p[i].p_vaddr) < p[i].p_memsz &&
            bytes <= p[i].p_memsz - (address - (o->bias + p[i].p_vaddr)))
            return true;
    return false;
}

SA_RARE bool sa_unwind_object_has_headers(const struct sa_unwind_object *o)
{
    unsigned count;

    return headers(o, &count);
}

/* An entry of the index in PT_GNU_EH_FRAME: offsets from its start, sorted by address. */
struct entry {
    int32_t address, fde;
};

#define NEARBY 32 /* entries: 256 bytes */

/*
 * Narrows a search among `count` sorted entries at *at. Returns the number of entries that are
 * left, and stores the first in *at. The last entry that is not above the offset is among them, if
 * one exists.
 *
 * The search begins where that entry would be if all were evenly spread, and doubles its steps. A
 * large table thus has few of its pages touched.
 */
static uintptr_t narrow(const struct sa_unwind_object *o, const struct entry **at, uintptr_t count,
                        int64_t offset)
{
    const struct entry *entry = *at;
    int64_t first, span;
    uintptr_t low, high;

    if (count < NEARBY)
        return count;
    first = entry[0].address;
    span = (first < 0 ? 0 : (int64_t)(o->end - (uintptr_t)o->eh_index)) - first;
    if (offset < first || offset - first >= span)
        return count;
    low = high = (uintptr_t)(offset - first) * count / (uintptr_t)span;
    sa_unwind_touch(&entry[low]);
    for (uintptr_t step = NEARBY; low > 0 && entry[low].address > offset; step *= 2) {
        high = low;
        low = low > step ? low - step : 0;
        sa_unwind_touch(&entry[low]);
    }
    for (uintptr_t step = NEARBY; high < count && entry[high].address <= offset; step *= 2) {
        low = high;
        high = count - high > step ? high + step : count;
        if (high < count)
            sa_unwind_touch(&entry[high]);
    }
    *at = entry + low;
    return high - low;
}

enum sa_unwind_found sa_unwind_object_fde(const struct sa_unwind_object *o, uintptr_t address,
                                          const uint8_t **ret_fde)
{
    const uint8_t *index = o->eh_index;
    struct sa_cfi_reader r = {.data_base = (uintptr_t)index};
    const struct entry *at;
    uintptr_t count;
    int64_t offset;

    if (!index)
        return SA_UNWIND_NONE;
    sa_unwind_touch(index);
    /* Version 1; an index exists (not DW_EH_PE_omit); entries are DW_EH_PE_datarel | sdata4. */
    if (index[0] != 1 || index[2] == 0xff || index[3] != 0x3b)
        return SA_UNWIND_FORMAT;
    r.at = index + 4;
    r.end = r.at + 32;
    sa_cfi_pointer(&r, index[1]);
    count = sa_cfi_pointer(&r, index[2]);
    if (r.failed || (uintptr_t)r.at % 4)
        return SA_UNWIND_FORMAT;
    at = (const struct entry *)r.at;
    offset = (int64_t)(address - (uintptr_t)index); /* as entries have it */
    count = narrow(o, &at, count, offset);
    while (count > 1) { /* the entry is in [at, at + count). No branch depends on the data */
        sa_unwind_touch(&at[count / 2]);
        at += at[count / 2].address <= offset ? count / 2 : 0;
        count -= count / 2;
    }
    if (!count || at->address > offset)
        return SA_UNWIND_NONE;
    *ret_fde = index + at->fde;
    return SA_UNWIND_FDE;
}

/* Returns the hash, continued with the bytes of an entry and its length. */
SA_RARE static uint64_t hash_entry(uint64_t hash, const uint8_t *entry)
{
    uint64_t word;
    uint32_t bytes;

    memcpy(&bytes, entry, sizeof(bytes));
    if (bytes == UINT32_MAX) /* the 64-bit format, for which there are no rules */
        bytes = 0;
    for (uint32_t at = 0; at < bytes; at += (uint32_t)sizeof(word)) {
        word = 0;
        memcpy(&word, entry + 4 + at, bytes - at < 8 ? bytes - at : 8);
        hash = (hash ^ hash >> 32 ^ word) * SA_RNG_STEP;
    }
    return hash ^ bytes;
}

SA_RARE uint64_t sa_unwind_object_fde_identity(const struct sa_unwind_object *o, uintptr_t address)
{
    const uint8_t *fde;
    int32_t back;

    if (sa_unwind_object_fde(o, address, &fde) != SA_UNWIND_FDE)
        return 0;
    memcpy(&back, fde + 4, sizeof(back));
    return sa_rng_mix(hash_entry(hash_entry((uintptr_t)fde, fde), fde + 4 - back)) | 1;
}

#endif
