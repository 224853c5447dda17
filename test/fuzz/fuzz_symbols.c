/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names out of made-up ELF files, whose sections and tables are the input's: whatever they say, an
 * answer names a function of the table that reaches to the address, the best there is, and its name
 * is clean and ends. And build ids out of made-up notes: what is found stands there, and nothing
 * behind the end is read.
 */
#include "sampling/symbolize/symbols.h"

#include "alloc/base/utf8.h"
#include "alloc/os/vm.h"
#include "test/fuzz/fuzz.h"

#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

#define FILE_MAX 4096
#define SECTIONS 6
#define ASKED    8
#define UNSIZED  4096 /* a function without a size reaches so far */

static uint8_t file[FILE_MAX];
static size_t bytes;
static int fd = -1;

static void make_sections(struct fuzz_input *in, Elf64_Ehdr *header)
{
    static const uint32_t types[] = {SHT_SYMTAB, SHT_DYNSYM, SHT_STRTAB, SHT_NULL};
    unsigned count = 1 + (unsigned)fuzz_below(in, SECTIONS);

    header->e_shoff = sizeof(*header);
    header->e_shnum = (uint16_t)count;
    header->e_shentsize = sizeof(Elf64_Shdr);
    for (unsigned i = 0; i < count; i++) {
        Elf64_Shdr s = {0};
        uint8_t how = fuzz_byte(in);

        s.sh_type = types[how % 4];
        s.sh_offset = how & 4 ? fuzz_number(in, 8) : fuzz_number(in, 2);
        s.sh_size = how & 8 ? fuzz_number(in, 8) : fuzz_number(in, 2);
        s.sh_link = how & 16 ? (uint32_t)fuzz_number(in, 4) : (uint32_t)fuzz_below(in, SECTIONS);
        s.sh_entsize = how & 32 ? fuzz_byte(in) : sizeof(Elf64_Sym);
        memcpy(file + sizeof(*header) + i * sizeof(s), &s, sizeof(s));
    }
}

/* What is left of the input is the rest of the file. */
static void make_file(struct fuzz_input *in)
{
    Elf64_Ehdr header = {0};
    size_t at = sizeof(header) + SECTIONS * sizeof(Elf64_Shdr);
    uint8_t how = fuzz_byte(in);

    memset(file, 0, sizeof(file));
    memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    make_sections(in, &header);
    if (how % 16 == 0)
        header.e_shnum = 0; /* the count is in the first section then */
    if (how % 16 == 1)
        header.e_shoff = fuzz_number(in, 8);
    memcpy(file, &header, sizeof(header));
    bytes = fuzz_left(in) < FILE_MAX - at ? fuzz_left(in) : FILE_MAX - at;
    memcpy(file + at, in->at, bytes);
    bytes += at;
    if (how % 16 == 2)
        bytes = fuzz_left(in) % (bytes + 1);
    if (fd < 0)
        fd = memfd_create("symbols", MFD_CLOEXEC);
    FUZZ_CHECK(fd >= 0 && ftruncate(fd, 0) == 0);
    FUZZ_CHECK(pwrite(fd, file, bytes, 0) == (ssize_t)bytes);
}

static bool there(uint64_t at, uint64_t n)
{
    return at <= bytes && n <= bytes - at;
}

/* The section that sa_symbols_find_in is to use; whether there is one. */
static bool find_sections(uint32_t type, Elf64_Shdr *ret_table, Elf64_Shdr *ret_strings)
{
    Elf64_Ehdr header;
    Elf64_Shdr s;
    uint64_t count;

    if (!there(0, sizeof(header)))
        return false;
    memcpy(&header, file, sizeof(header));
    count = header.e_shnum;
    if (!header.e_shoff)
        return false;
    if (!count) {
        if (!there(header.e_shoff, sizeof(s)))
            return false;
        memcpy(&s, file + header.e_shoff, sizeof(s));
        count = s.sh_size;
    }
    if (count > 65536)
        return false;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t at = header.e_shoff + i * sizeof(s);

        if (!there(at, sizeof(s)))
            return false;
        memcpy(&s, file + at, sizeof(s));
        if (s.sh_type != type)
            continue;
        *ret_table = s;
        at = header.e_shoff + s.sh_link * sizeof(s);
        if (s.sh_entsize != sizeof(Elf64_Sym) || s.sh_link >= count || !there(at, sizeof(s)))
            return false;
        memcpy(ret_strings, file + at, sizeof(s));
        return ret_strings->sh_type == SHT_STRTAB;
    }
    return false;
}

static bool is_function(const Elf64_Sym *s, const Elf64_Shdr *strings)
{
    unsigned type = ELF64_ST_TYPE(s->st_info);

    return (type == STT_FUNC || type == STT_GNU_IFUNC) && s->st_shndx != SHN_UNDEF && s->st_name &&
           s->st_name < strings->sh_size;
}

/* The function that an address belongs to, as far as size and place decide: those with a size
 * first, of these the one that begins last. Whether there is one. */
static bool best_of(const Elf64_Shdr *table, const Elf64_Shdr *strings, uint64_t address,
                    Elf64_Sym *ret)
{
    bool found = false;

    /* Read as the module reads: in chunks, of which one that is not there ends it. */
    for (uint64_t i = 0, n = table->sh_size / sizeof(*ret); i < n; i++) {
        uint64_t at = table->sh_offset + i * sizeof(*ret), chunk = i - i % 128;
        uint64_t max = n - chunk < 128 ? n - chunk : 128;
        Elf64_Sym s;

        if (!there(table->sh_offset + chunk * sizeof(s), max * sizeof(s)))
            break;
        memcpy(&s, file + at, sizeof(s));
        if (!is_function(&s, strings) || address < s.st_value ||
            address - s.st_value >= (s.st_size ? s.st_size : UNSIZED))
            continue;
        if (!found || (s.st_size != 0) > (ret->st_size != 0) ||
            ((s.st_size != 0) == (ret->st_size != 0) && s.st_value > ret->st_value))
            *ret = s;
        found = true;
    }
    return found;
}

static void check_name(const char *name, size_t max)
{
    size_t n = strnlen(name, max);

    FUZZ_CHECK(n > 0 && n < max);
    for (size_t i = 0; i < n;) {
        size_t length = sa_utf8_length(name + i, n - i);

        FUZZ_CHECK(length > 0 && (length > 1 || (name[i] >= ' ' && name[i] != 0x7f)));
        FUZZ_CHECK(i == 0 || name[i] != '@');
        i += length;
    }
}

static void ask(bool dynamic, const uint64_t *addresses)
{
    struct sa_symbol s[ASKED];
    struct sa_buffer names = {NULL, 0, 0};
    Elf64_Shdr table = {0}, strings = {0};
    bool have = find_sections(dynamic ? SHT_DYNSYM : SHT_SYMTAB, &table, &strings), any;

    FUZZ_CHECK(sa_buffer_add(&names, 1));
    memset(s, 0, sizeof(s));
    for (int i = 0; i < ASKED; i++)
        s[i].address = addresses[i];
    any = sa_symbols_find_in(fd, dynamic, s, ASKED, &names);
    FUZZ_CHECK(have || !any);
    for (int i = 0; i < ASKED; i++) {
        Elf64_Sym best = {0};
        bool found = any && best_of(&table, &strings, s[i].address, &best);

        FUZZ_EQUAL(s[i].name_at != 0, found);
        if (s[i].name)
            check_name(names.data + s[i].name, names.used - s[i].name);
        if (!found)
            continue;
        FUZZ_CHECK(s[i].value == best.st_value && (s[i].size != 0) == (best.st_size != 0));
    }
    sa_buffer_free(&names);
}

static void try_notes(struct fuzz_input *in)
{
    size_t align = fuzz_byte(in), n;
    uint8_t *notes = fuzz_bytes(in, 512, &n), id[SA_BUILD_ID_MAX];
    size_t got = sa_build_id(notes, n, align, id);

    FUZZ_CHECK(got <= SA_BUILD_ID_MAX && (!got || memmem(notes, n, id, got)));
    free(notes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = {data, data + size};
    uint64_t addresses[ASKED], last = 0;

    if (!sa_vm.page_bytes)
        sa_vm_init();
    if (fuzz_byte(&in) % 8 == 0) {
        try_notes(&in);
        return 0;
    }
    for (int i = 0; i < ASKED; i++) { /* sorted */
        uint64_t more = fuzz_number(&in, 1 + fuzz_byte(&in) % 8);

        addresses[i] = last += more < UINT64_MAX - last ? more : 0;
    }
    make_file(&in);
    ask(false, addresses);
    ask(true, addresses);
    return 0;
}
