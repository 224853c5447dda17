/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files into memory, and questions about a profile (profile_file.h). profile_file_parse.c decodes.
 */
#include "tool/file/profile_file.h"

#include "tool/base/foreign_file.h"

#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define CHUNK (1 << 16)

/* Whether a file may be a profile, by its first bytes as they are read. A core comes here only if
 * it was packed, or is no file. */
static bool check_beginning(gzFile in, const char *path, const char *first, size_t bytes,
                            struct sa_error *e)
{
    Elf64_Ehdr header = {.e_type = ET_NONE};

    memcpy(&header, first, bytes < sizeof(header) ? bytes : sizeof(header));
    if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
        return !sa_foreign_file_tell(path, first, bytes, e);
    if (header.e_type != ET_CORE)
        sa_error_set(e, SA_EXIT_DAMAGED,
                     "%s: it is no profile.proto and no core file, but a program or library", path);
    else if (gzdirect(in))
        sa_error_set(e, SA_EXIT_DAMAGED,
                     "%s: it is a core: that is read at any place, so from a "
                     "file and not from a pipe",
                     path);
    else
        sa_error_set(e, SA_EXIT_DAMAGED,
                     "%s: it is a core, compressed by gzip: 'gzip -d' makes it readable", path);
    return false;
}

/* zlib reads gzip and plain files alike. */
static bool read_all(gzFile in, const char *path, struct sa_buffer *ret, struct sa_error *e)
{
    static char chunk[CHUNK];
    int n, code;

    while ((n = gzread(in, chunk, sizeof(chunk))) > 0) {
        char *to =
            ret->used + (size_t)n <= SA_FILE_BYTES_MAX ? sa_buffer_add(ret, (size_t)n) : NULL;

        if (!to) {
            sa_error_set(e, SA_EXIT_FAILED, "%s: more than %u MiB, or no memory for it", path,
                         SA_FILE_BYTES_MAX >> 20);
            return false;
        }
        memcpy(to, chunk, (size_t)n);
        if (to == ret->data && !check_beginning(in, path, to, (size_t)n, e))
            return false;
    }
    gzerror(in, &code);
    if (n == 0 && code == Z_OK && !ret->used)
        sa_error_set(e, SA_EXIT_DAMAGED, "%s: it is empty", path);
    else if (code == Z_ERRNO)
        sa_error_set(e, SA_EXIT_FAILED, "%s: %s", path, strerror(errno));
    else if (n < 0 || code != Z_OK)
        sa_error_set(e, SA_EXIT_DAMAGED, "%s: the gzip file is cut short or damaged", path);
    return !e->code;
}

bool sa_profile_file_read(struct sa_profile_file *ret, const char *path, struct sa_error *e)
{
    struct sa_buffer data = {NULL, 0, 0};
    struct sa_error why = {SA_EXIT_DONE, ""};
    gzFile in;
    bool fine;

    errno = 0;
    in = gzopen(path, "rbe");
    if (!in) {
        sa_error_set(e, errno == ENOENT ? SA_EXIT_NONE : SA_EXIT_FAILED, "%s: %s", path,
                     strerror(errno ? errno : ENOMEM));
        return false;
    }
    fine = read_all(in, path, &data, e);
    gzclose(in);
    if (fine && !sa_profile_file_parse(ret, data.data, data.used, &why)) {
        sa_error_set(e, why.code, "%s: %s", path, why.text);
        fine = false;
    }
    if (fine)
        ret->data = data;
    else
        sa_buffer_free(&data);
    return fine;
}

void sa_profile_file_free(struct sa_profile_file *file)
{
    sa_buffer_free(&file->data);
    for (size_t i = 0; i < sizeof(file->memory) / sizeof(*file->memory); i++)
        sa_buffer_free(&file->memory[i]);
    memset(file, 0, sizeof(*file));
}

int64_t sa_file_interval_bytes(const struct sa_profile_file *file)
{
    const char *unit = file->period_type.unit;

    return file->period > 0 && (!unit || !*unit || strcmp(unit, "bytes") == 0) ? file->period : 0;
}

static const struct sa_file_label *find_label(const struct sa_profile_file *file,
                                              const struct sa_file_sample *sample, const char *key)
{
    for (uint32_t i = 0; i < sample->label_count; i++)
        if (strcmp(file->labels[sample->label + i].key, key) == 0)
            return &file->labels[sample->label + i];
    return NULL;
}

int64_t sa_file_number(const struct sa_profile_file *file, const struct sa_file_sample *sample,
                       const char *key)
{
    const struct sa_file_label *label = find_label(file, sample, key);

    return label ? label->number : 0;
}

const char *sa_file_text(const struct sa_profile_file *file, const struct sa_file_sample *sample,
                         const char *key)
{
    const struct sa_file_label *label = find_label(file, sample, key);

    return label && *label->text ? label->text : NULL;
}

/* A comment says "salloc ..., pid N". */
long sa_file_pid(const struct sa_profile_file *file)
{
    const char *at;

    for (uint32_t i = 0; i < file->comment_count; i++)
        if (strncmp(file->comments[i], "salloc ", 7) == 0 &&
            (at = strstr(file->comments[i], ", pid ")) != NULL)
            return strtol(at + 6, NULL, 10);
    return -1;
}

const char *sa_file_location_name(const struct sa_profile_file *file,
                                  const struct sa_file_location *location)
{
    if (location->line_count)
        return file->functions[file->lines[location->line]].name;
    return location->mapping == SA_FILE_NONE ? "[unknown]" : file->mappings[location->mapping].file;
}

/* Generated code is outside of all libraries, as code of a library that is gone; the latter has no
 * name, but its address. */
const char *sa_file_library_name(const struct sa_profile_file *file,
                                 const struct sa_file_location *location)
{
    if (location->mapping != SA_FILE_NONE)
        return file->mappings[location->mapping].file;
    return location->address && location->line_count &&
                   strncmp(sa_file_location_name(file, location), "0x", 2) != 0 &&
                   *sa_file_location_name(file, location) != '['
               ? "[generated code]"
               : "[unknown]";
}

uint32_t sa_file_metric(const struct sa_profile_file *file, const char *name)
{
    const char *wanted = name ? name : file->default_type;

    for (uint32_t i = 0; i < file->type_count; i++)
        if (strcmp(file->types[i].name, wanted) == 0)
            return i;
    return name || !file->type_count ? SA_FILE_NONE : file->type_count - 1;
}

uint32_t sa_file_find_metric(const struct sa_profile_file *file, const char *name, const char *what,
                             struct sa_error *e)
{
    uint32_t found = sa_file_metric(file, name);
    char has[512] = "";

    for (uint32_t i = 0; found == SA_FILE_NONE && i < file->type_count; i++) {
        size_t used = strlen(has);

        snprintf(has + used, sizeof(has) - used, " %s", file->types[i].name);
    }
    if (found == SA_FILE_NONE)
        sa_error_set(e, SA_EXIT_USAGE, "%s has no metric '%s', but%s", what, name ? name : "",
                     *has ? has : " none");
    return found;
}

uint32_t sa_file_objects(const struct sa_profile_file *file, uint32_t metric)
{
    static const char bytes[] = "space", blocks[] = "objects";
    const char *name = file->types[metric].name;
    size_t n = strlen(name), ending = sizeof(bytes) - 1;
    char objects[64];

    if (n >= sizeof(blocks) - 1 && strcmp(name + n - (sizeof(blocks) - 1), blocks) == 0)
        return metric;
    if (n < ending || n - ending + sizeof(blocks) > sizeof(objects) ||
        strcmp(name + n - ending, bytes) != 0)
        return SA_FILE_NONE;
    memcpy(objects, name, n - ending);
    memcpy(objects + n - ending, blocks, sizeof(blocks));
    return sa_file_metric(file, objects);
}
