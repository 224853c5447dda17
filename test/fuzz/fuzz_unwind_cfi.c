/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules of the unwinder from made-up call frame information: an entry for a function and the common
 * one that it refers to, whose lengths are true and whose contents are the input's. Whatever these
 * say, nothing is read beyond them (they end where their memory ends, each in turn), the answer
 * comes, is the same when asked again, and has no bits that its kind does not have.
 */
#include "sampling/stack/unwind_cfi.h"

#include "sampling/stack/unwind.h"
#include "sampling/stack/unwind_entry.h"
#include "test/fuzz/fuzz.h"

#ifdef SA_UNWIND_FAST

#include <elf.h>
#include <sys/mman.h>

#define INDEX_BYTES 20 /* header, and a table of one */
#define CODE_BYTES  64
#define ENTRY_MAX   400

static struct {
    Elf64_Ehdr header;
    Elf64_Phdr part[2];
    _Alignas(16) uint8_t code[CODE_BYTES];
} file;

static void make_file(struct fuzz_input *in)
{
    static const uint8_t sigreturn[] = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05};
    size_t at = fuzz_below(in, CODE_BYTES);

    memset(&file, 0, sizeof(file));
    memcpy(file.header.e_ident, ELFMAG, SELFMAG);
    file.header.e_phentsize = sizeof(Elf64_Phdr);
    file.header.e_phoff = sizeof(Elf64_Ehdr);
    file.header.e_phnum = 2;
    file.part[0].p_type = PT_LOAD;
    file.part[0].p_flags = PF_R | (fuzz_byte(in) % 4 ? PF_X : 0);
    file.part[0].p_vaddr = (uintptr_t)file.code;
    file.part[0].p_memsz = CODE_BYTES;
    memcpy(file.code + at, sigreturn,
           CODE_BYTES - at < sizeof(sigreturn) ? CODE_BYTES - at : sizeof(sigreturn));
}

static void put32(uint8_t *to, int64_t v)
{
    int32_t word = (int32_t)v;

    memcpy(to, &word, sizeof(word));
}

/* Entry of n bytes of the input behind its length and first word. */
static void make_entry(uint8_t *to, size_t n, uint32_t word, struct fuzz_input *in)
{
    uint32_t length = (uint32_t)n + 4;

    put32(to, length);
    put32(to + 4, word);
    for (size_t i = 0; i < n; i++)
        to[8 + i] = fuzz_byte(in);
}

static void check_rule(uint64_t rule)
{
    switch (rule & SA_RULE_KIND) {
    case SA_RULE_FRAME:
        FUZZ_CHECK(!(rule & SA_RULE_CFA_STORED) || rule & SA_RULE_CFA_RBP);
        FUZZ_CHECK(!(rule & SA_RULE_CFA_R10) || !(rule & SA_RULE_CFA_RBP));
        FUZZ_CHECK(!(rule & SA_RULE_RBP_AT_CFA) || !(rule & SA_RULE_RBP_AT_RBP));
        break;
    case SA_RULE_SIGNAL:
        FUZZ_EQUAL(rule & 0x8007800780070000, 0); /* small multiples of 8 */
        FUZZ_EQUAL(rule & 0xfff8, 0);
        break;
    default:
        FUZZ_CHECK(rule == SA_RULE_END || rule == SA_RULE_NONE || rule == SA_RULE_OTHER);
    }
}

static void ask(const struct sa_unwind_object *object, uintptr_t address)
{
    uint64_t rule = sa_unwind_rule(object, address);

    check_rule(rule);
    FUZZ_CHECK(sa_unwind_rule(object, address) == rule);
}

static void ask_about_entry(struct sa_unwind_object *object, uint8_t *index, const uint8_t *fde,
                            struct fuzz_input *in)
{
    struct sa_cfi_cie cie;
    struct sa_cfi_reader program;
    uintptr_t start = 0, end = 0;
    int64_t offset;

    if (!sa_cfi_fde(fde, &cie, &start, &end, &program))
        start = (uintptr_t)file.code;
    else
        FUZZ_CHECK(program.at <= program.end && cie.ra_register == SA_CFI_RA);
    offset = (int64_t)(start - (uintptr_t)index);
    if (offset != (int32_t)offset)
        offset = INT32_MIN;
    index[0] = 1;
    index[1] = 0x1b;
    index[2] = 0x03;
    index[3] = 0x3b;
    put32(index + 4, 0);
    put32(index + 8, 1);
    put32(index + 12, offset);
    put32(index + 16, fde - index);
    ask(object, start);
    ask(object, start + 1 + fuzz_below(in, 64));
    ask(object, start + fuzz_number(in, 3));
    ask(object, end - 1);
    ask(object, start - 1);
    FUZZ_CHECK(sa_unwind_object_fde_identity(object, start) ==
               sa_unwind_object_fde_identity(object, start));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = {data, data + size};
    size_t cie_bytes = 1 + fuzz_below(&in, ENTRY_MAX / 4), fde_bytes;
    bool cie_last = fuzz_byte(&in) % 2;
    struct sa_unwind_object object = {.start = (uintptr_t)&file, .end = (uintptr_t)(&file + 1)};
    uint8_t *tables, *cie, *fde;

    make_file(&in);
    fde_bytes = fuzz_left(&in) > cie_bytes ? fuzz_left(&in) - cie_bytes : 1;
    fde_bytes = fde_bytes < ENTRY_MAX ? fde_bytes : ENTRY_MAX;
    tables = malloc(INDEX_BYTES + 8 + cie_bytes + 8 + fde_bytes);
    FUZZ_CHECK(tables);
    cie = tables + INDEX_BYTES + (cie_last ? 8 + fde_bytes : 0);
    fde = tables + INDEX_BYTES + (cie_last ? 0 : 8 + cie_bytes);
    make_entry(cie, cie_bytes, 0, &in);
    make_entry(fde, fde_bytes, (uint32_t)(fde + 4 - cie), &in);
    object.eh_index = tables;
    in = (struct fuzz_input){data, data + size};
    ask_about_entry(&object, tables, fde, &in);
    free(tables);
    return 0;
}

#else

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    (void)data, (void)size; /* not for this machine */
    return 0;
}

#endif
