/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reader of cores: a small core, with a note of each kind and three parts of memory, and with
 * changes; or bytes as they come. It opens with areas that are in order and can be read, or fails
 * with an error that has a name.
 */
#include "test/fuzz/patches.h"
#include "tool/target/target.h"

#include <elf.h>
#include <sys/mman.h>
#include <sys/procfs.h>
#include <unistd.h>

#define BYTES_MAX 65536
#define LOADS     3
#define PAGE      4096

static uint8_t good[BYTES_MAX];
static size_t good_bytes;
static int fd;
static char path[64];

/* Appends to the good file; where. */
static size_t put(const void *data, size_t bytes)
{
    size_t at = good_bytes;

    FUZZ_CHECK(at + bytes <= BYTES_MAX);
    memcpy(good + at, data, bytes);
    good_bytes += bytes;
    return at;
}

static void put_note(uint32_t type, const void *body, size_t bytes)
{
    const Elf64_Nhdr header = {.n_namesz = 5, .n_descsz = (uint32_t)bytes, .n_type = type};

    put(&header, sizeof(header));
    put("CORE\0\0\0", 8);
    put(body, bytes);
    good_bytes = (good_bytes + 3) & ~(size_t)3;
}

static void put_notes(void)
{
    static const struct {
        uint64_t count, page, rows[2][3];
        char names[32];
    } files = {2, PAGE, {{0x10000, 0x12000, 0}, {0x20000, 0x21000, 1}}, "/bin/a\0/lib/b.so"};
    static const uint64_t vector[] = {AT_PHDR, 0x10040,   AT_PHNUM, 3,       AT_PAGESZ,
                                      PAGE,    AT_EXECFN, 0x10100,  AT_NULL, 0};
    static struct elf_prpsinfo info = {.pr_pid = 77, .pr_fname = "a"};
    static struct elf_prstatus status = {.pr_pid = 77};

    put_note(NT_PRPSINFO, &info, sizeof(info));
    put_note(NT_PRSTATUS, &status, sizeof(status));
    put_note(NT_AUXV, vector, sizeof(vector));
    put_note(NT_FILE, &files, sizeof(files));
}

static void make(void)
{
    Elf64_Ehdr header = {.e_type = ET_CORE, .e_machine = EM_X86_64, .e_version = EV_CURRENT};
    Elf64_Phdr parts[1 + LOADS] = {{.p_type = PT_NOTE}};
    size_t at;

    memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    header.e_phoff = sizeof(header);
    header.e_phentsize = sizeof(parts[0]);
    header.e_phnum = 1 + LOADS;
    put(&header, sizeof(header));
    at = put(parts, sizeof(parts));
    parts[0].p_offset = good_bytes;
    put_notes();
    parts[0].p_filesz = good_bytes - parts[0].p_offset;
    for (unsigned i = 0; i < LOADS; i++) {
        static uint8_t memory[128]; /* few: most changes are to what is read as a structure */

        memset(memory, (int)i, sizeof(memory));
        parts[1 + i] = (Elf64_Phdr){.p_type = PT_LOAD,
                                    .p_flags = i ? PF_R | PF_W : PF_R | PF_X,
                                    .p_vaddr = 0x10000 * (1 + i),
                                    .p_memsz = 2 * PAGE,
                                    .p_filesz = sizeof(memory),
                                    .p_offset = put(memory, sizeof(memory))};
    }
    memcpy(good + at, parts, sizeof(parts));
}

/* Areas come in order, and what they have can be read or is cut off. False: the file is refused. */
static bool try(const uint8_t *data, size_t bytes)
{
    struct sa_error e = {SA_EXIT_DONE, ""};
    struct sa_target t;
    struct sa_area area;
    uint64_t end = 0;

    FUZZ_CHECK(ftruncate(fd, 0) == 0 && pwrite(fd, data, bytes, 0) == (ssize_t)bytes);
    if (!sa_target_open(&t, (struct sa_source){.name = path}, &e)) {
        FUZZ_CHECK(e.code != SA_EXIT_DONE && e.text[0]);
        return false;
    }
    for (size_t i = 0; t.kind->area(&t, i, &area); i++) {
        static char some[PAGE];
        uint64_t n = area.end - area.start < PAGE ? area.end - area.start : PAGE;

        FUZZ_CHECK(area.start >= end && area.end > area.start && area.path);
        end = area.end;
        sa_target_read(&t, area.start, some, n);
        sa_target_read(&t, area.end - n, some, n);
    }
    for (size_t i = 0; i < t.row_count; i++) {
        FUZZ_CHECK(t.rows[i].start < t.rows[i].end && t.rows[i].path < t.names_used);
        FUZZ_CHECK(strlen(sa_target_path(&t, &t.rows[i])) < t.names_used);
        FUZZ_CHECK(sa_target_row(&t, t.rows[i].start));
    }
    FUZZ_CHECK(strnlen(t.lack, sizeof(t.lack)) < sizeof(t.lack));
    sa_target_close(&t);
    return true;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    fd = memfd_create("core", MFD_CLOEXEC);
    FUZZ_CHECK(fd >= 0);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    make();
    FUZZ_CHECK(try(good, good_bytes));
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = {data, data + size};
    static uint8_t changed[BYTES_MAX];
    size_t bytes = good_bytes;

    if (!size)
        return 0;
    if (fuzz_byte(&in) % 8 == 0)
        return try(data, size), 0;
    memcpy(changed, good, bytes);
    fuzz_patch(&in, changed, &bytes, BYTES_MAX);
    try(changed, bytes);
    return 0;
}
