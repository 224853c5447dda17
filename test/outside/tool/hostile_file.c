/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Damaged profile files: a profile cut short at every byte, and with bytes changed at random.
 * Reading ends with a model whose every index is in bounds, and which can be converted and shown,
 * or with a named error. An unreadable
 * page behind the bytes ends the program if the reader leaves them.
 * usage: hostile_file FILE.pb ROUNDS
 */
#include "alloc/os/vm.h"
#include "test/support/profile_file_walk.h"
#include "tool/diff/diff_report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static uint64_t seed = 88172645463325252u;
static FILE *nowhere;
static const struct sa_profile_file *whole; /* the profile without damage */
static unsigned long read_well, refused;

static uint64_t draw(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

/* Compares a damaged profile with the whole one, each way round, as far as they have metrics in
 * common. */
static void compare(const struct sa_profile_file *f)
{
    const struct sa_report_options report = {
        .by = sa_report_by("function,line,size,stack"), .rows = 3, .width = 80};

    for (uint32_t i = 0; whole && i < f->type_count; i++) {
        uint32_t same = sa_file_metric(whole, f->types[i].name);

        if (same != SA_FILE_NONE)
            profile_file_require(sa_diff_report(f, whole, i, same, &report, false, nowhere) &&
                                     sa_diff_report(whole, f, same, i, &report, true, nowhere),
                                 "a comparison");
    }
}

static void try(const void *data, size_t bytes)
{
    struct sa_error e = {SA_EXIT_DONE, ""};
    struct sa_profile_file f;

    if (sa_profile_file_parse(&f, data, bytes, &e)) {
        profile_file_walk(&f);
        profile_file_write_all(&f, nowhere);
        compare(&f);
        sa_profile_file_free(&f);
        read_well++;
        return;
    }
    profile_file_require(e.code != SA_EXIT_DONE && e.text[0], "an error without a name");
    refused++;
}

int main(int argc, char **argv)
{
    FILE *in = argc == 3 ? fopen(argv[1], "rb") : NULL;
    static char content[1 << 20];
    size_t bytes = in ? fread(content, 1, sizeof(content), in) : 0;
    size_t page = (size_t)sysconf(_SC_PAGESIZE), room = (bytes / page + 1) * page;
    char *map = mmap(NULL, room + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *end = map + room;
    static struct sa_profile_file undamaged;
    struct sa_error e = {SA_EXIT_DONE, ""};

    if (!bytes || bytes == sizeof(content) || map == MAP_FAILED ||
        mprotect(end, page, PROT_NONE) != 0)
        return 1;
    nowhere = fopen("/dev/null", "w");
    if (!nowhere)
        return 1;
    sa_vm_init();
    try(memcpy(end - bytes, content, bytes), bytes);
    profile_file_require(read_well == 1, "the file as it is");
    profile_file_require(sa_profile_file_parse(&undamaged, content, bytes, &e),
                         "the file as it is");
    whole = &undamaged;
    for (size_t n = 0; n < bytes; n++)
        try(memcpy(end - n, content, n), n);
    for (long round = atol(argv[2]); round > 0; round--) {
        char *copy = memcpy(end - bytes, content, bytes);

        for (uint64_t n = draw() % 8 + 1; n; n--)
            copy[draw() % bytes] = (char)(draw() % 4 ? draw() : draw() % 2 ? 0xff : 0);
        try(copy, bytes);
    }
    printf("%lu read, %lu refused\n", read_well, refused);
    profile_file_require(refused > bytes / 2, "a file cut short is read as a whole one");
    return 0;
}
