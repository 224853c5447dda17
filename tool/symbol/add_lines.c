/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a profile once more, with lines; see add_lines.h. Messages are copied as they are, but for
 * locations that get functions, functions that get a plain name, and mappings that tell readers
 * what is there. New functions and strings follow at the end, where their numbers continue those of
 * the file.
 */
#include "tool/symbol/add_lines.h"

#include "alloc/base/utf8.h"
#include "tool/base/array.h"
#include "tool/base/budget.h"
#include "tool/base/child.h"
#include "tool/base/intern.h"
#include "tool/base/io.h"
#include "tool/base/note.h"
#include "tool/base/text.h"
#include "tool/file/proto_reader.h"
#include "tool/symbol/code_map.h"
#include "tool/symbol/debug_file.h"
#include "tool/symbol/debuginfod.h"
#include "tool/symbol/demangle.h"
#include "tool/symbol/lines.h"

#include <stdio.h>

#define LINES_SECONDS 600
#define PROFILE_MAX   (1ul << 30) /* bytes, with lines */

/* Fields of profile.proto. */
enum { PROFILE_MAPPING = 3, PROFILE_LOCATION, PROFILE_FUNCTION, PROFILE_STRING };
enum { MAPPING_HAS_FUNCTIONS = 7, MAPPING_HAS_INLINE_FRAMES = 10 };
enum { LOCATION_LINE = 4, LINE_FUNCTION = 1, LINE_LINE };
enum { FUNCTION_ID = 1, FUNCTION_NAME, FUNCTION_SYSTEM_NAME, FUNCTION_FILE };
enum { VARINT = 0, BYTES = 2 };

/* What is known of a mapping. Each includes those before. */
enum knows { NOTHING, FUNCTIONS, LINES };

/* A function of a line: number of its mangled name, and of its file. */
struct function_key {
    uint32_t mangled, file;
};

struct new_line {
    uint32_t function;
    int line;
};

struct adder {
    const struct sa_profile_file *file;
    struct sa_intern strings, functions; /* the new ones */
    uint32_t *plain;                     /* of new functions: number of the plain name */
    size_t plain_cap;
    struct new_line *lines;
    size_t line_count, line_cap;
    struct {
        size_t first, count; /* of its new lines; count 0: it stays as it is */
    } * locations;
    enum knows *mappings;
    uint32_t *renamed;                       /* of old functions: their plain name, or none */
    uint64_t string_count, function_id_last; /* of the file */
    struct sa_buffer out, message;
    bool failed;
};

static uint32_t add_string(struct adder *a, const char *text)
{
    size_t bytes = strlen(text);
    char *clean = malloc(bytes + 1);
    uint32_t number = SA_INTERN_NONE;

    if (clean) {
        memcpy(clean, text, bytes + 1);
        sa_utf8_clean(clean, bytes);
        number = sa_intern(&a->strings, clean, bytes);
        free(clean);
    }
    a->failed |= number == SA_INTERN_NONE;
    return number;
}

/* The plain name of a mangled one, else the name itself, as a string. */
static uint32_t add_plain(struct adder *a, const char *name)
{
    char *plain = sa_demangle(name);
    uint32_t number = add_string(a, plain ? plain : name);

    free(plain);
    return number;
}

/* The path of a source file, which is cut if it is too long for the kernel. */
static uint32_t add_path(struct adder *a, const struct sa_line *line)
{
    char path[4096];

    if (!line->file || *line->file == '/' || !line->folder)
        return add_string(a, line->file ? line->file : "");
    snprintf(path, sizeof(path), "%s/%s", line->folder, line->file);
    return add_string(a, path);
}

static uint32_t add_function(struct adder *a, const char *name, const struct sa_line *line)
{
    struct function_key key = {add_string(a, name), add_path(a, line)};
    size_t before = a->functions.count;
    uint32_t number = sa_intern(&a->functions, &key, sizeof(key));

    a->failed |= number == SA_INTERN_NONE ||
                 !sa_array_room(&a->plain, &a->plain_cap, before + 1, sizeof(*a->plain), 256);
    if (!a->failed && number == before)
        a->plain[number] = add_plain(a, name);
    return number;
}

/* The name that the profile has for the function that is not inlined. */
static const char *old_name(const struct sa_profile_file *f, const struct sa_file_location *l)
{
    return l->line_count ? f->functions[f->lines[l->line + l->line_count - 1]].system_name : "";
}

static bool has_lines(const struct sa_profile_file *f, const struct sa_file_location *l)
{
    for (uint32_t i = 0; i < l->line_count; i++)
        if (f->line_numbers[l->line + i] || *f->functions[f->lines[l->line + i]].file)
            return true;
    return false;
}

/* Makes room for the new lines of a location. */
static bool begin_location(struct adder *a, uint32_t i, unsigned count)
{
    a->failed |=
        !sa_array_room(&a->lines, &a->line_cap, a->line_count + count, sizeof(*a->lines), 1024);
    if (a->failed)
        return false;
    a->locations[i].first = a->line_count;
    a->locations[i].count = count;
    return true;
}

/* Looks a location up. What says less than the profile does is not used. */
static void add_location(struct adder *a, struct sa_lines *lines, uint32_t i)
{
    const struct sa_profile_file *f = a->file;
    const struct sa_file_location *l = &f->locations[i];
    struct sa_line found[SA_LINES_MAX];
    unsigned count = has_lines(f, l) ? 0 : sa_lines_find(lines, l, found);
    enum knows knows = FUNCTIONS;

    for (unsigned k = 0; k < count; k++)
        if (found[k].file)
            knows = LINES;
    if (!count || (l->line_count && knows != LINES) || !begin_location(a, i, count))
        return;
    for (unsigned k = 0; k < count; k++) {
        const char *name = found[k].name;

        if (!name)
            name = k == count - 1 ? old_name(f, l) : "[unknown]";
        a->lines[a->line_count++] =
            (struct new_line){add_function(a, name, &found[k]), found[k].line};
    }
    if (a->mappings[l->mapping] < knows)
        a->mappings[l->mapping] = knows;
}

/* --- generated code --- */

/* A location outside of all programs and libraries. */
struct code_place {
    uint64_t address;
    uint32_t location;
};

static int code_order(const void *a, const void *b)
{
    const struct code_place *x = a, *y = b;

    return (x->address > y->address) - (x->address < y->address);
}

/* Whether the file has the address in place of a name, or nothing. */
static bool is_nameless(const struct sa_profile_file *f, const struct sa_file_location *l)
{
    return l->mapping == SA_FILE_NONE && l->address > 1 &&
           (!l->line_count || strncmp(f->functions[f->lines[l->line]].name, "0x", 2) == 0);
}

static void name_code(struct adder *a, const struct sa_code_map *map, struct code_place *places,
                      size_t count)
{
    struct sa_code *codes = calloc(count, sizeof(*codes));

    a->failed |= !codes;
    qsort(places, count, sizeof(*places), code_order);
    for (size_t i = 0; codes && i < count; i++)
        codes[i].address = places[i].address;
    a->failed = a->failed || !sa_code_map_find(map, codes, count);
    for (size_t i = 0; i < count && !a->failed; i++) {
        static const struct sa_line nowhere;
        char name[SA_CODE_NAME_MAX + 1];

        if (!codes[i].name || !begin_location(a, places[i].location, 1))
            continue;
        memcpy(name, codes[i].name, codes[i].bytes);
        name[codes[i].bytes] = '\0';
        a->lines[a->line_count++] = (struct new_line){add_function(a, name, &nowhere), 0};
    }
    free(codes);
}

/* Names generated code by the map that the process has left. What was read from a live process has
 * these names already. */
static void add_code(struct adder *a)
{
    const struct sa_profile_file *f = a->file;
    struct code_place *places = calloc((size_t)f->location_count + 1, sizeof(*places));
    struct sa_code_map map;
    size_t count = 0;

    a->failed |= !places;
    for (uint32_t i = 0; places && i < f->location_count; i++)
        if (is_nameless(f, &f->locations[i]))
            places[count++] = (struct code_place){f->locations[i].address, i};
    if (count && sa_code_map_of_past(&map, sa_file_pid(f), f->time_ns)) {
        name_code(a, &map, places, count);
        sa_code_map_free(&map);
    }
    free(places);
}

/* Gives an old function its plain name, if it has none. */
static void rename_function(struct adder *a, uint32_t i)
{
    const struct sa_file_function *f = &a->file->functions[i];
    char *plain = strcmp(f->name, f->system_name) == 0 ? sa_demangle(f->name) : NULL;

    a->renamed[i] = plain ? add_string(a, plain) : SA_INTERN_NONE;
    free(plain);
    if (f->id > a->function_id_last)
        a->function_id_last = f->id;
}

static void put(struct adder *a, struct sa_buffer *to, const void *data, size_t bytes)
{
    a->failed |= !sa_text_put(to, data, bytes);
}

static void put_varint(struct adder *a, struct sa_buffer *to, uint64_t v)
{
    uint8_t bytes[10];
    size_t n = 0;

    for (; v >= 0x80; v >>= 7)
        bytes[n++] = (uint8_t)(v | 0x80);
    bytes[n++] = (uint8_t)v;
    put(a, to, bytes, n);
}

static void put_number(struct adder *a, struct sa_buffer *to, unsigned field, uint64_t v)
{
    if (!v)
        return;
    put_varint(a, to, (uint64_t)field << 3 | VARINT);
    put_varint(a, to, v);
}

static void put_bytes(struct adder *a, struct sa_buffer *to, unsigned field, const void *data,
                      size_t bytes)
{
    put_varint(a, to, (uint64_t)field << 3 | BYTES);
    put_varint(a, to, bytes);
    put(a, to, data, bytes);
}

/* Begins a message as it was, without the fields from..to. */
static void begin(struct adder *a, struct sa_proto_reader old, unsigned from, unsigned to)
{
    const uint8_t *at = old.at;
    struct sa_proto_field f;

    a->message.used = 0;
    for (; sa_proto_next(&old, &f); at = old.at)
        if (f.field < from || f.field > to)
            put(a, &a->message, at, (size_t)(old.at - at));
}

static void end(struct adder *a, unsigned field)
{
    put_bytes(a, &a->out, field, a->message.data, a->message.used);
}

static uint64_t string_number(const struct adder *a, uint32_t new)
{
    return a->string_count + new;
}

static void put_mapping(struct adder *a, struct sa_proto_reader old, uint32_t i)
{
    unsigned last = a->mappings[i] == LINES ? MAPPING_HAS_INLINE_FRAMES : MAPPING_HAS_FUNCTIONS;

    begin(a, old, MAPPING_HAS_FUNCTIONS, last);
    for (unsigned field = MAPPING_HAS_FUNCTIONS; field <= last; field++)
        put_number(a, &a->message, field, 1);
    end(a, PROFILE_MAPPING);
}

static void put_location(struct adder *a, struct sa_proto_reader old, uint32_t i)
{
    struct sa_buffer line = {NULL, 0, 0};

    begin(a, old, LOCATION_LINE, LOCATION_LINE);
    for (size_t k = 0; k < a->locations[i].count; k++) {
        const struct new_line *l = &a->lines[a->locations[i].first + k];

        line.used = 0;
        put_number(a, &line, LINE_FUNCTION, a->function_id_last + 1 + l->function);
        put_number(a, &line, LINE_LINE, (uint64_t)l->line);
        put_bytes(a, &a->message, LOCATION_LINE, line.data, line.used);
    }
    sa_buffer_free(&line);
    end(a, PROFILE_LOCATION);
}

static void put_old_function(struct adder *a, struct sa_proto_reader old, uint32_t i)
{
    begin(a, old, FUNCTION_NAME, FUNCTION_NAME);
    put_number(a, &a->message, FUNCTION_NAME, string_number(a, a->renamed[i]));
    end(a, PROFILE_FUNCTION);
}

static void put_new(struct adder *a)
{
    for (uint32_t i = 0; i < a->functions.count; i++) {
        struct function_key key;
        size_t bytes;

        memcpy(&key, sa_intern_key(&a->functions, i, &bytes), sizeof(key));
        a->message.used = 0;
        put_number(a, &a->message, FUNCTION_ID, a->function_id_last + 1 + i);
        put_number(a, &a->message, FUNCTION_NAME, string_number(a, a->plain[i]));
        put_number(a, &a->message, FUNCTION_SYSTEM_NAME, string_number(a, key.mangled));
        put_number(a, &a->message, FUNCTION_FILE, string_number(a, key.file));
        end(a, PROFILE_FUNCTION);
    }
    for (uint32_t i = 0; i < a->strings.count; i++) {
        size_t bytes;
        const void *text = sa_intern_key(&a->strings, i, &bytes);

        put_bytes(a, &a->out, PROFILE_STRING, text, bytes);
    }
}

/* Copies the profile, and replaces what has changed. */
static void put_profile(struct adder *a)
{
    struct sa_proto_reader r = sa_proto_reader(a->file->data.data, a->file->data.used);
    uint32_t mapping = 0, location = 0, function = 0;
    struct sa_proto_field f;

    for (const uint8_t *at = r.at; !a->failed && sa_proto_next(&r, &f); at = r.at) {
        if (f.field == PROFILE_MAPPING && a->mappings[mapping++] != NOTHING)
            put_mapping(a, f.bytes, mapping - 1);
        else if (f.field == PROFILE_LOCATION && a->locations[location++].count)
            put_location(a, f.bytes, location - 1);
        else if (f.field == PROFILE_FUNCTION && a->renamed[function++] != SA_INTERN_NONE)
            put_old_function(a, f.bytes, function - 1);
        else
            put(a, &a->out, at, (size_t)(r.at - at));
    }
    put_new(a);
}

static void count_strings(struct adder *a)
{
    struct sa_proto_reader r = sa_proto_reader(a->file->data.data, a->file->data.used);
    struct sa_proto_field f;

    while (sa_proto_next(&r, &f))
        a->string_count += f.field == PROFILE_STRING;
    if (!a->string_count) /* the first of all strings is empty */
        add_string(a, "");
}

/* Makes the new profile. lines: NULL: only names. False: no memory. */
static bool make(const struct sa_profile_file *file, struct sa_lines *lines, bool code,
                 struct sa_buffer *ret)
{
    struct adder a = {.file = file};

    a.locations = calloc((size_t)file->location_count + 1, sizeof(*a.locations));
    a.mappings = calloc((size_t)file->mapping_count + 1, sizeof(*a.mappings));
    a.renamed = calloc((size_t)file->function_count + 1, sizeof(*a.renamed));
    a.failed = !a.locations || !a.mappings || !a.renamed;
    if (!a.failed) {
        count_strings(&a);
        for (uint32_t i = 0; i < file->function_count; i++)
            rename_function(&a, i);
        for (uint32_t i = 0; lines && i < file->location_count && !a.failed; i++)
            add_location(&a, lines, i);
        if (code)
            add_code(&a);
        put_profile(&a);
    }
    *ret = a.out;
    free(a.locations);
    free(a.mappings);
    free(a.renamed);
    free(a.plain);
    free(a.lines);
    sa_intern_free(&a.strings);
    sa_intern_free(&a.functions);
    sa_buffer_free(&a.message);
    return !a.failed;
}

struct job {
    const struct sa_profile_file *file;
    const char *root;
};

/* Says what lacks lines, and why. */
static void tell(const char *what, const char *why)
{
    char budget[160];

    sa_budget_describe(budget, sizeof(budget));
    sa_note("%s: %s%s%s", what, why, *budget ? "; sallocctl takes " : "", budget);
}

/* In a child: libdw ends its process where memory is short, and files are not trusted. */
static bool make_with_lines(void *arg, int fd)
{
    const struct job *job = arg;
    struct sa_lines *lines = sa_lines_open(job->file, job->root);
    struct sa_buffer out = {NULL, 0, 0};
    bool fine;

    fine = lines && make(job->file, lines, !job->root, &out) &&
           sa_io_write_all(fd, out.data, out.used) == 0;
    if (fine && sa_debug_file_lacks_memory())
        tell("some names come without source lines", "there is no memory for them");
    return fine;
}

/* Says why there are no lines. */
static void tell_end(enum sa_child_end end, int number)
{
    char why[64] = "there is no memory for them";

    if (end == SA_CHILD_NONE)
        snprintf(why, sizeof(why), "%s", strerror(number));
    else if (end == SA_CHILD_LATE)
        snprintf(why, sizeof(why), "they take more than %d seconds", LINES_SECONDS);
    else if (end == SA_CHILD_KILLED)
        snprintf(why, sizeof(why), "signal %d ended their reader", number);
    tell("names come without source lines", why);
}

bool sa_add_lines(struct sa_profile_file *file, const char *root, struct sa_error *e)
{
    struct job job = {file, root};
    struct sa_child_task task = {.run = make_with_lines,
                                 .arg = &job,
                                 .seconds = LINES_SECONDS + sa_debuginfod_allowed(),
                                 .answer_max = PROFILE_MAX};
    struct sa_buffer out = {NULL, 0, 0};
    struct sa_profile_file new;
    int number;
    enum sa_child_end end = sa_child_run(&task, &out, &number);

    if (end != SA_CHILD_DONE) {
        sa_buffer_free(&out);
        tell_end(end, number);
        if (!make(file, NULL, !root, &out))
            sa_error_set(e, SA_EXIT_FAILED, "there is no memory for the names");
    }
    if (!e->code && sa_profile_file_parse(&new, out.data, out.used, e)) {
        new.data = out;
        sa_profile_file_free(file);
        *file = new;
        return true;
    }
    sa_buffer_free(&out);
    return false;
}
