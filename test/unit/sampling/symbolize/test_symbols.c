/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of functions out of ELF files: this program's own, with and without .symtab, those of
 * another file that pretends to be it, and files that are cut short or damaged, which must give an
 * answer and do no harm.
 */
#include "sampling/symbolize/symbols.h"

#include "alloc/base/sort.h"
#include "alloc/os/vm.h"
#include "test/support/cmocka.h"
#include "test/support/random.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static __attribute__((noinline, used)) int local_function(volatile int *p)
{
    for (int i = 0; i < 10; i++)
        *p += i;
    return *p;
}

__attribute__((noinline, used)) int global_function(volatile int *p);
__attribute__((noinline, used)) int global_function(volatile int *p)
{
    return local_function(p) * 3;
}

/* Two names at one address: the plainer one is given, every time. */
__attribute__((alias("global_function"))) int __an_alias(volatile int *p);

static struct sa_mappings maps;

static int collect(void **state)
{
    (void)state;
    sa_vm_init();
    return sa_mappings_collect(&maps);
}

static const struct sa_object *program(void)
{
    return sa_mappings_object(&maps, 0);
}

static bool address_before(const void *a, const void *b)
{
    return ((const struct sa_symbol *)a)->address < ((const struct sa_symbol *)b)->address;
}

#define ASKED 3

/* Addresses inside the two functions, and one that is in none. */
static void ask(struct sa_symbol *s)
{
    memset(s, 0, ASKED * sizeof(*s));
    s[0].address = (uintptr_t)local_function + 1 - program()->base;
    s[1].address = (uintptr_t)global_function + 1 - program()->base;
    s[2].address = 1;
    sa_sort(s, ASKED, sizeof(*s), address_before);
}

static const char *answer(const struct sa_symbol *s, const void *function,
                          const struct sa_buffer *names)
{
    for (int i = 0; i < ASKED; i++)
        if (s[i].address == (uintptr_t)function + 1 - program()->base)
            return s[i].name ? names->data + s[i].name : NULL;
    return "not asked";
}

static void names_begin(struct sa_buffer *names)
{
    memset(names, 0, sizeof(*names));
    assert_non_null(sa_buffer_add(names, 1));
}

/* Local and global functions are found by an address in their middle; what is in no function has no
 * name. */
static void test_symbols_of_this_program(void **state)
{
    struct sa_symbol s[ASKED];
    struct sa_buffer names;

    (void)state;
    names_begin(&names);
    ask(s);
    assert_true(sa_symbols_find(&maps, program(), s, ASKED, &names));
    assert_string_equal(answer(s, local_function, &names), "local_function");
    assert_string_equal(answer(s, global_function, &names), "global_function");
    assert_int_equal(s[0].name, 0);
    assert_true(s[1].size > 0 && s[1].value <= s[1].address);
    sa_buffer_free(&names);
}

/* The program is the first object and has this function's code; libc and the vDSO are there,
 * too. */
static void test_mappings_are_the_program_headers(void **state)
{
    const struct sa_segment *here = sa_mappings_find(&maps, (uintptr_t)local_function);
    const struct sa_segment *libc = sa_mappings_find(&maps, (uintptr_t)lfind);
    char path[4096] = "";

    (void)state;
    assert_non_null(here);
    assert_int_equal(here->object, 0);
    assert_true(program()->main);
    assert_int_equal(here->start - program()->base, here->vaddr);
    assert_true(readlink("/proc/self/exe", path, sizeof(path) - 1) > 0);
    assert_string_equal(sa_mappings_name(&maps, program()), path);
    assert_non_null(libc);
    assert_true(libc->object != 0);
    assert_non_null(
        strstr(sa_mappings_name(&maps, sa_mappings_object(&maps, libc->object)), "libc"));
    assert_int_equal(sa_mappings_name(&maps, sa_mappings_object(&maps, libc->object))[0], '/');
    assert_null(sa_mappings_find(&maps, 1));
}

/* A copy of a file in memory. */
static char *image;
static size_t image_bytes;

static void load_image(const char *path)
{
    int fd = open(path, O_RDONLY);
    struct stat st;

    assert_true(fd >= 0 && fstat(fd, &st) == 0);
    image_bytes = (size_t)st.st_size;
    image = malloc(image_bytes);
    assert_non_null(image);
    assert_int_equal(read(fd, image, image_bytes), (long)image_bytes);
    close(fd);
}

static int image_file(size_t bytes)
{
    int fd = memfd_create("image", 0);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, image, bytes), (long)bytes);
    return fd;
}

static bool find_both(int fd, struct sa_symbol *s, struct sa_buffer *names)
{
    bool found;

    ask(s);
    found = sa_symbols_find_in(fd, false, s, ASKED, names);
    ask(s);
    return sa_symbols_find_in(fd, true, s, ASKED, names) || found;
}

static const struct sa_object *libc(void)
{
    return sa_mappings_object(&maps, sa_mappings_find(&maps, (uintptr_t)lfind)->object);
}

/* Without .symtab, .dynsym has what is exported. */
static void test_symbols_of_a_stripped_file(void **state)
{
    struct sa_symbol s;
    struct sa_buffer names;
    Elf64_Ehdr *header;
    Elf64_Shdr *section;
    int fd;

    (void)state;
    load_image(sa_mappings_name(&maps, libc()));
    header = (Elf64_Ehdr *)image;
    section = (Elf64_Shdr *)(image + header->e_shoff);
    for (unsigned i = 0; i < header->e_shnum; i++)
        if (section[i].sh_type == SHT_SYMTAB)
            section[i].sh_type = SHT_NULL;
    fd = image_file(image_bytes);
    names_begin(&names);
    memset(&s, 0, sizeof(s));
    s.address = (uintptr_t)lfind + 1 - libc()->base;
    assert_false(sa_symbols_find_in(fd, false, &s, 1, &names));
    assert_true(sa_symbols_find_in(fd, true, &s, 1, &names));
    assert_string_equal(names.data + s.name, "lfind");
    close(fd);
    free(image);
    sa_buffer_free(&names);
}

/* A program without .symtab that exports nothing has no functions: nothing is guessed. */
static void test_symbols_of_a_file_without(void **state)
{
    struct sa_symbol s[ASKED];
    struct sa_buffer names;
    Elf64_Ehdr *header;
    Elf64_Shdr *section;
    int fd;

    (void)state;
    load_image("/proc/self/exe");
    header = (Elf64_Ehdr *)image;
    section = (Elf64_Shdr *)(image + header->e_shoff);
    for (unsigned i = 0; i < header->e_shnum; i++)
        if (section[i].sh_type == SHT_DYNSYM)
            section[i].sh_size = 0;
    fd = image_file(image_bytes);
    names_begin(&names);
    ask(s);
    assert_false(sa_symbols_find_in(fd, true, s, ASKED, &names));
    assert_true(sa_symbols_find_in(fd, false, s, ASKED, &names));
    close(fd);
    free(image);
    sa_buffer_free(&names);
}

/* A file cut short anywhere, and files with random bytes changed in their tables: any answer will
 * do. */
static void test_symbols_of_damaged_files(void **state)
{
    struct test_random random = {20260101};
    struct sa_symbol s[ASKED];
    struct sa_buffer names;
    unsigned found = 0;

    (void)state;
    load_image("/proc/self/exe");
    for (int i = 0; i < 300; i++) {
        size_t tables = ((Elf64_Ehdr *)image)->e_shoff, at;
        char kept[16];
        size_t cut = i % 3 ? image_bytes : test_random_below(&random, image_bytes);
        int fd;

        /* In the header, in the section headers, anywhere. */
        at = i % 2 ? test_random_below(&random, 64)
                   : tables + test_random_below(&random, image_bytes - tables);
        if (i % 5 == 0)
            at = test_random_below(&random, image_bytes);
        if (at > image_bytes - sizeof(kept))
            at = image_bytes - sizeof(kept);
        memcpy(kept, image + at, sizeof(kept));
        for (size_t k = 0; k < sizeof(kept); k++)
            image[at + k] = (char)test_random_next(&random);
        fd = image_file(cut);
        names_begin(&names);
        found += find_both(fd, s, &names);
        for (int k = 0; k < ASKED; k++)
            assert_true(s[k].name < names.used);
        sa_buffer_free(&names);
        close(fd);
        memcpy(image + at, kept, sizeof(kept));
    }
    assert_true(found > 20); /* and some were good enough */
    free(image);
}

/* An object whose file is not what was loaded has no symbols, rather than wrong ones. */
static void test_symbols_of_another_file(void **state)
{
    struct sa_symbol s[ASKED];
    struct sa_buffer names;
    struct sa_object other = *program();

    (void)state;
    names_begin(&names);
    ask(s);
    other.build_id[0] ^= 1;
    if (other.build_id_bytes)
        assert_false(sa_symbols_find(&maps, &other, s, ASKED, &names));
    other = *program();
    other.segments--;
    assert_false(sa_symbols_find(&maps, &other, s, ASKED, &names));
    other = *program();
    other.main = false;
    other.name = libc()->name;
    assert_false(sa_symbols_find(&maps, &other, s, ASKED, &names));
    sa_buffer_free(&names);
}

/* Notes: build ids are found among others, and lengths that lead outside are not followed. */
static void test_build_id_notes(void **state)
{
    uint32_t notes[] = {4, 4, 1, 0x554e47, 0, /* another note of "GNU" */
                        4, 8, 3, 0x554e47, 0x44332211, 0x88776655};
    const uint8_t *bytes = (const uint8_t *)notes;
    uint8_t id[SA_BUILD_ID_MAX];

    (void)state;
    assert_int_equal(sa_build_id(bytes, sizeof(notes), 4, id), 8);
    assert_int_equal(id[0], 0x11);
    for (size_t cut = 0; cut < sizeof(notes); cut++)
        assert_int_equal(sa_build_id(bytes, cut, 4, id), 0);
    notes[5] = 0xffffffff;
    assert_int_equal(sa_build_id(bytes, sizeof(notes), 4, id), 0);
    notes[5] = 4;
    notes[6] = 0xfffffffc;
    assert_int_equal(sa_build_id(bytes, sizeof(notes), 4, id), 0);
    notes[6] = 33; /* longer than any build id */
    assert_int_equal(sa_build_id(bytes, sizeof(notes), 4, id), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mappings_are_the_program_headers),
        cmocka_unit_test(test_symbols_of_this_program),
        cmocka_unit_test(test_symbols_of_a_stripped_file),
        cmocka_unit_test(test_symbols_of_a_file_without),
        cmocka_unit_test(test_symbols_of_damaged_files),
        cmocka_unit_test(test_symbols_of_another_file),
        cmocka_unit_test(test_build_id_notes),
    };

    return cmocka_run_group_tests(tests, collect, NULL);
}
