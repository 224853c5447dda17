/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads symbol tables (symbols.h). One pass over a table, in chunks, offers each function to the
 * addresses that it covers. Each address keeps the best function (is_better). The names of these
 * functions are read at the end.
 */
#include "sampling/symbolize/symbols.h"

#include "alloc/base/fatal.h"
#include "alloc/base/fmt.h"
#include "alloc/base/utf8.h"
#include "alloc/os/own_proc.h"
#include "alloc/os/sys.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>

#define CHUNK          3072      /* bytes read at a time; on the stack of any thread */
#define NAME_BYTES_MAX 8192      /* bytes; longer names are cut */
#define SECTIONS_MAX   65536     /* a file with more is damaged */
#define UNSIZED        4096      /* bytes that a function without a size is taken to have */
#define OFFERS_MAX     (1 << 26) /* a search ends there: a damaged file must not take hours */
#define HEADERS_MAX    256       /* program headers; a file with more is not the loaded one */

/* Reads `bytes` of a file. False: they are not all there. */
static bool read_at(int fd, void *buf, size_t bytes, uint64_t offset)
{
    char *to = buf;

    while (bytes) {
        long n = sa_sys_pread(fd, to, bytes, offset);

        if (n == -EINTR)
            continue;
        if (n <= 0)
            return false;
        to += n;
        offset += (uint64_t)n;
        bytes -= (size_t)n;
    }
    return true;
}

/* Reads the ELF header. False: the file is not a 64-bit little-endian ELF file. */
static bool read_header(int fd, Elf64_Ehdr *ret)
{
    return read_at(fd, ret, sizeof(*ret), 0) && memcmp(ret->e_ident, ELFMAG, SELFMAG) == 0 &&
           ret->e_ident[EI_CLASS] == ELFCLASS64 && ret->e_ident[EI_DATA] == ELFDATA2LSB;
}

/* Finds the first section of a type, and the section with its strings. False: none, or damaged. */
static bool find_table(int fd, uint32_t type, Elf64_Shdr *ret_table, Elf64_Shdr *ret_strings)
{
    Elf64_Ehdr header;
    Elf64_Shdr section;
    uint64_t count;

    if (!read_header(fd, &header) || !header.e_shoff || header.e_shentsize != sizeof(section))
        return false;
    count = header.e_shnum;
    if (!count) { /* 65280 or more sections: the first section has their number */
        if (!read_at(fd, &section, sizeof(section), header.e_shoff))
            return false;
        count = section.sh_size;
    }
    if (count > SECTIONS_MAX)
        return false;
    for (uint64_t i = 0; i < count; i++) {
        if (!read_at(fd, &section, sizeof(section), header.e_shoff + i * sizeof(section)))
            return false;
        if (section.sh_type != type)
            continue;
        *ret_table = section;
        return section.sh_entsize == sizeof(Elf64_Sym) && section.sh_link < count &&
               read_at(fd, ret_strings, sizeof(*ret_strings),
                       header.e_shoff + section.sh_link * sizeof(section)) &&
               ret_strings->sh_type == SHT_STRTAB;
    }
    return false;
}

/* Returns the rank of a function. A higher rank is better: bit 2, it has a size; bit 1, its binding
 * is global; bit 0, weak. */
static uint8_t rank_of(const Elf64_Sym *symbol)
{
    unsigned binding = ELF64_ST_BIND(symbol->st_info);

    return (uint8_t)((symbol->st_size ? 4 : 0) + (binding == STB_GLOBAL ? 2 : 0) +
                     (binding == STB_WEAK ? 1 : 0));
}

/* Returns whether a name is better than another: fewer underscores at the start, then the order of
 * characters. The first 63 characters count, which makes the choice the same in every run. */
static bool name_is_better(int fd, uint64_t name, uint64_t than)
{
    char a[64] = "", b[64] = "";
    size_t a_lines = 0, b_lines = 0;

    if (!read_at(fd, a, sizeof(a) - 1, name) || !read_at(fd, b, sizeof(b) - 1, than))
        return false;
    while (a[a_lines] == '_')
        a_lines++;
    while (b[b_lines] == '_')
        b_lines++;
    return a_lines != b_lines ? a_lines < b_lines : strcmp(a, b) < 0;
}

/*
 * Returns whether a function is better than the one that an address has so far: with a size, then
 * the one that begins later, then the higher rank, then the better name.
 */
static bool is_better(int fd, const Elf64_Sym *symbol, uint64_t name_at,
                      const struct sa_symbol *than)
{
    uint8_t rank = rank_of(symbol);

    if (!than->name_at)
        return true;
    if (rank / 4 != than->rank / 4)
        return rank > than->rank;
    if (symbol->st_value != than->value)
        return symbol->st_value > than->value;
    if (rank != than->rank)
        return rank > than->rank;
    return name_is_better(fd, name_at, than->name_at);
}

/* Offers a function to the addresses that it covers, and returns their number. */
static size_t offer(int fd, const Elf64_Sym *symbol, uint64_t name_at, struct sa_symbol *symbols,
                    size_t count)
{
    uint64_t size = symbol->st_size ? symbol->st_size : UNSIZED;
    size_t low = 0, high = count, first;

    while (low < high) { /* finds the first address that is not below the function */
        size_t middle = low + (high - low) / 2;

        if (symbols[middle].address < symbol->st_value)
            low = middle + 1;
        else
            high = middle;
    }
    for (first = low; low < count && symbols[low].address - symbol->st_value < size; low++)
        if (is_better(fd, symbol, name_at, &symbols[low])) {
            symbols[low].value = symbol->st_value;
            symbols[low].size = symbol->st_size;
            symbols[low].name_at = name_at;
            symbols[low].rank = rank_of(symbol);
        }
    return low - first;
}

/* Offers all functions of a table. Returns whether it has any. */
static bool scan(int fd, const Elf64_Shdr *table, const Elf64_Shdr *strings,
                 struct sa_symbol *symbols, size_t count)
{
    Elf64_Sym chunk[CHUNK / sizeof(Elf64_Sym)];
    uint64_t left = table->sh_size / sizeof(Elf64_Sym), at = table->sh_offset, offers = 0;
    bool any = false;

    while (left && offers < OFFERS_MAX) {
        size_t n = left < CHUNK / sizeof(Elf64_Sym) ? left : CHUNK / sizeof(Elf64_Sym);

        if (!read_at(fd, chunk, n * sizeof(*chunk), at))
            break;
        for (size_t i = 0; i < n; i++) {
            unsigned type = ELF64_ST_TYPE(chunk[i].st_info);

            if ((type == STT_FUNC || type == STT_GNU_IFUNC) && chunk[i].st_shndx != SHN_UNDEF &&
                chunk[i].st_name && chunk[i].st_name < strings->sh_size) {
                any = true;
                offers +=
                    offer(fd, &chunk[i], strings->sh_offset + chunk[i].st_name, symbols, count);
            }
        }
        at += n * sizeof(*chunk);
        left -= n;
    }
    return any;
}

/* Copies a name from the file to `names`, and returns its offset. 0: it cannot be read, or is
 * empty. */
static size_t copy_name(int fd, uint64_t at, struct sa_buffer *names)
{
    size_t start = names->used, length = 0;
    const char *end = NULL;

    while (!end && length < NAME_BYTES_MAX) { /* the first piece is short, as most names are */
        size_t piece = length ? 1024 : 128;
        char *to = sa_buffer_add(names, piece + 1); /* with room for a 0 behind the piece */
        long n = to ? sa_sys_pread(fd, to, piece, at + length) : 0;

        if (n <= 0) {
            names->used = start;
            return 0;
        }
        end = memchr(to, '\0', (size_t)n);
        length += end ? (size_t)(end - to) : (size_t)n;
        names->used = start + length;
    }
    for (size_t i = 1; i < length; i++) /* cuts name@version, which some tables have */
        if (names->data[start + i] == '@')
            length = i;
    sa_utf8_clean(names->data + start, length);
    names->data[start + length] = '\0'; /* in the room behind the last piece, or before */
    names->used = length ? start + length + 1 : start;
    return length ? start : 0;
}

bool sa_symbols_find_in(int fd, bool dynamic, struct sa_symbol *symbols, size_t count,
                        struct sa_buffer *names)
{
    Elf64_Shdr table, strings;
    bool any;

    SA_DCHECK(names->used > 0);
    for (size_t i = 1; i < count; i++)
        SA_DCHECK(symbols[i - 1].address <= symbols[i].address);
    if (!find_table(fd, dynamic ? SHT_DYNSYM : SHT_SYMTAB, &table, &strings))
        return false;
    any = scan(fd, &table, &strings, symbols, count);
    for (size_t i = 0; i < count; i++) {
        struct sa_symbol *s = &symbols[i];

        /* Neighbours are mostly in one function, and share its name. */
        if (i && s->name_at && s->name_at == s[-1].name_at)
            s->name = s[-1].name;
        else if (s->name_at)
            s->name = copy_name(fd, s->name_at, names);
    }
    return any;
}

/* Returns whether the file is the loaded one: it has the same segments, and the same build id if
 * the object has one. */
static bool is_loaded_file(int fd, const struct sa_mappings *m, const struct sa_object *object)
{
    Elf64_Ehdr header;
    Elf64_Phdr part;
    unsigned loads = 0;
    bool same_id = !object->build_id_bytes;

    if (!read_header(fd, &header) || header.e_phentsize != sizeof(part) ||
        header.e_phnum > HEADERS_MAX)
        return false;
    for (unsigned i = 0; i < header.e_phnum; i++) {
        uint8_t notes[1024], id[SA_BUILD_ID_MAX];

        if (!read_at(fd, &part, sizeof(part), header.e_phoff + i * sizeof(part)))
            return false;
        if (part.p_type == PT_LOAD) {
            const struct sa_segment *s = sa_mappings_segment(m, object->segment + loads);

            if (loads++ >= object->segments || s->vaddr != part.p_vaddr ||
                s->offset != part.p_offset || s->file_bytes != part.p_filesz)
                return false;
        }
        if (part.p_type == PT_NOTE && !same_id && part.p_filesz <= sizeof(notes) &&
            read_at(fd, notes, part.p_filesz, part.p_offset))
            same_id =
                sa_build_id(notes, part.p_filesz, part.p_align, id) == object->build_id_bytes &&
                memcmp(id, object->build_id, object->build_id_bytes) == 0;
    }
    return loads == object->segments && same_id;
}

/* Opens the separate debug file of an object. Returns a descriptor or a negative error number. */
static int open_debug_file(const struct sa_object *object)
{
    char path[128];
    struct sa_fmt f;

    if (object->build_id_bytes < 2)
        return -ENOENT;
    sa_fmt_init(&f, path, sizeof(path));
    sa_fmt_add(&f, "/usr/lib/debug/.build-id/%02x/", object->build_id[0]);
    for (size_t i = 1; i < object->build_id_bytes; i++)
        sa_fmt_add(&f, "%02x", object->build_id[i]);
    sa_fmt_add(&f, ".debug");
    return sa_sys_open(path, O_RDONLY, 0);
}

bool sa_symbols_find(const struct sa_mappings *mappings, const struct sa_object *object,
                     struct sa_symbol *symbols, size_t count, struct sa_buffer *names)
{
    const char *path =
        object->file ? mappings->names.data + object->file : sa_mappings_name(mappings, object);
    /* The program's file is opened even if it was deleted. */
    int fd = object->main && !object->file ? sa_own_proc_open("exe")
                                           : sa_sys_open(path, O_RDONLY | O_NONBLOCK, 0);
    int debug;
    bool found = false, loaded = fd >= 0 && is_loaded_file(fd, mappings, object);

    if (loaded)
        found = sa_symbols_find_in(fd, false, symbols, count, names);
    if (!found) {
        debug = open_debug_file(object);
        if (debug >= 0) {
            found = sa_symbols_find_in(debug, false, symbols, count, names);
            sa_sys_close(debug);
        }
    }
    if (!found && loaded)
        found = sa_symbols_find_in(fd, true, symbols, count, names);
    if (fd >= 0)
        sa_sys_close(fd);
    return found;
}
