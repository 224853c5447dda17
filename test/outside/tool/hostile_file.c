/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Damaged profile files: a profile cut short at every byte, and with bytes changed at random.
 * Reading ends with a model whose every index is in bounds, and which can be converted and shown,
 * or with a named error. An unreadable
 * page behind the bytes ends the program if the reader leaves them.
 * usage: hostile_file FILE.pb ROUNDS
 */
#include "alloc/os/vm.h"
#include "tool/diff/diff_report.h"
#include "tool/file/convert.h"
#include "tool/page/flame.h"
#include "tool/report/file_report.h"
#include "tool/report/report_keys.h"

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

static void require(bool fine, const char *what)
{
    if (!fine) {
        fprintf(stderr, "out of bounds: %s\n", what);
        abort();
    }
}

/* Looks at everything that users of the model may look at. */
static void walk(const struct sa_profile_file *f)
{
    size_t letters = strlen(f->default_type) + strlen(f->period_type.name);

    require(f->value_count == (uint64_t)f->sample_count * f->type_count, "values");
    for (uint32_t i = 0; i < f->type_count; i++)
        letters += strlen(f->types[i].name) + strlen(f->types[i].unit);
    for (uint32_t i = 0; i < f->sample_count; i++) {
        const struct sa_file_sample *s = &f->samples[i];

        require((uint64_t)s->frame + s->depth <= f->frame_count, "frames of a sample");
        require((uint64_t)s->value + f->type_count <= f->value_count, "values of a sample");
        require((uint64_t)s->label + s->label_count <= f->label_count, "labels of a sample");
    }
    for (uint32_t i = 0; i < f->label_count; i++)
        letters += strlen(f->labels[i].key) + strlen(f->labels[i].text);
    for (uint32_t i = 0; i < f->frame_count; i++)
        require(f->frames[i] < f->location_count, "location of a frame");
    for (uint32_t i = 0; i < f->location_count; i++) {
        const struct sa_file_location *l = &f->locations[i];

        require(l->mapping == SA_FILE_NONE || l->mapping < f->mapping_count, "mapping");
        require((uint64_t)l->line + l->line_count <= f->line_count, "lines");
    }
    for (uint32_t i = 0; i < f->line_count; i++)
        require(f->lines[i] < f->function_count, "function");
    for (uint32_t i = 0; i < f->function_count; i++)
        letters += strlen(f->functions[i].name) + strlen(f->functions[i].system_name);
    for (uint32_t i = 0; i < f->mapping_count; i++)
        letters += strlen(f->mappings[i].file) + strlen(f->mappings[i].build_id);
    for (uint32_t i = 0; i < f->comment_count; i++)
        letters += strlen(f->comments[i]);
    require(letters < SIZE_MAX, "strings");
}

/* Writes a profile in every format, and its tables. */
static void write_all(const struct sa_profile_file *f)
{
    const struct sa_report_options report = {
        .by = sa_report_by("function,line,size,stack"), .rows = 3, .width = 80};
    struct sa_buffer out = {NULL, 0, 0};
    struct sa_error e = {SA_EXIT_DONE, ""};

    if (f->type_count)
        require(sa_flame_put(f, 0, "x", &out, &e), "a page");
    for (uint32_t i = 0; i < f->type_count; i++) {
        require(sa_convert_collapsed(f, i, &out) && sa_convert_heap(f, i, &out), "a format");
        require(sa_file_report(f, i, &report, nowhere), "a report");
    }
    sa_buffer_free(&out);
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
            require(sa_diff_report(f, whole, i, same, &report, false, nowhere) &&
                        sa_diff_report(whole, f, same, i, &report, true, nowhere),
                    "a comparison");
    }
}

static void try(const void *data, size_t bytes)
{
    struct sa_error e = {SA_EXIT_DONE, ""};
    struct sa_profile_file f;

    if (sa_profile_file_parse(&f, data, bytes, &e)) {
        walk(&f);
        write_all(&f);
        compare(&f);
        sa_profile_file_free(&f);
        read_well++;
        return;
    }
    require(e.code != SA_EXIT_DONE && e.text[0], "an error without a name");
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
    require(read_well == 1, "the file as it is");
    require(sa_profile_file_parse(&undamaged, content, bytes, &e), "the file as it is");
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
    require(refused > bytes / 2, "a file cut short is read as a whole one");
    return 0;
}
