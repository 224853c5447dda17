/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decodes profile.proto (profile_file.h). Messages come in any order, so the first pass collects
 * them with the numbers that the file has for strings, functions, mappings and locations. The
 * second pass replaces these by pointers and indices, or names what does not exist.
 */
#include "alloc/base/utf8.h"
#include "sampling/export/proto_singles.h"
#include "sampling/export/sums_field.h"
#include "tool/file/profile_file.h"
#include "tool/file/proto_reader.h"

#include <stdlib.h>
#include <string.h>

/* The arrays, as struct sa_profile_file keeps their memory. */
enum {
    TYPES,
    MAPPINGS,
    FUNCTIONS,
    LOCATIONS,
    SAMPLES,
    LABELS,
    FRAMES,
    LINES,
    LINE_NUMBERS,
    VALUES,
    COMMENTS,
    SUMS,
    SINGLES,
    STRINGS, /* offsets into TEXT */
    TEXT
};

/* What is collected first: numbers of the file in place of pointers and indices. */
struct raw_mapping {
    uint64_t file, build_id;
};
struct raw_label {
    uint64_t key, text, number;
};

struct parser {
    struct sa_profile_file *file;
    struct sa_buffer mapping_strings, function_strings, labels, frames, lines, comments, types;
    struct sa_buffer location_mappings; /* ids */
    uint64_t default_type;
    struct sa_file_single single; /* the last one */
    struct sa_error *e;
};

static void *add(struct parser *p, struct sa_buffer *to, size_t bytes)
{
    void *new = to->used + bytes < UINT32_MAX ? sa_buffer_add(to, bytes) : NULL;

    if (!new)
        sa_error_set(p->e, SA_EXIT_FAILED, "there is no memory for the profile");
    return new;
}

static void add_number(struct parser *p, struct sa_buffer *to, uint64_t number)
{
    uint64_t *new = add(p, to, sizeof(*new));

    if (new)
        *new = number;
}

static size_t numbers(const struct sa_buffer *b)
{
    return b->used / sizeof(uint64_t);
}

static void damaged(struct parser *p, const char *what)
{
    sa_error_set(p->e, SA_EXIT_DAMAGED, "it is no profile.proto, or damaged: %s", what);
}

/* Adds a repeated number, packed or single. */
static void add_repeated(struct parser *p, struct sa_buffer *to, struct sa_proto_field *f)
{
    if (!f->is_bytes)
        add_number(p, to, f->number);
    while (f->is_bytes && f->bytes.at < f->bytes.end && !p->e->code) {
        add_number(p, to, sa_proto_read_varint(&f->bytes));
        if (f->bytes.damaged)
            damaged(p, "a list of numbers ends within one");
    }
}

/* Reads a message of single numbers: ret[k] is field k, below `count`. */
static void read_numbers(struct parser *p, struct sa_proto_reader m, uint64_t *ret, size_t count,
                         const char *what)
{
    struct sa_proto_field f;

    memset(ret, 0, count * sizeof(*ret));
    while (sa_proto_next(&m, &f))
        if (f.field < count && !f.is_bytes)
            ret[f.field] = f.number;
    if (m.damaged)
        damaged(p, what);
}

static void add_string(struct parser *p, struct sa_proto_reader m)
{
    size_t bytes = (size_t)(m.end - m.at);
    uint64_t offset = p->file->memory[TEXT].used;
    char *to = add(p, &p->file->memory[TEXT], bytes + 1);

    if (!to)
        return;
    memcpy(to, m.at, bytes);
    sa_utf8_clean(to, bytes);
    add_number(p, &p->file->memory[STRINGS], offset);
}

static void add_type(struct parser *p, struct sa_proto_reader m)
{
    uint64_t n[3];

    read_numbers(p, m, n, 3, "a sample type");
    add_number(p, &p->types, n[1]);
    add_number(p, &p->types, n[2]);
    if (numbers(&p->types) > 2 * SA_FILE_TYPES_MAX)
        damaged(p, "more than 64 sample types");
}

/* Adds the sums of a sample (sampling/export/sums_field.h); SA_FILE_NONE: they make no sense. */
static uint32_t add_sums(struct parser *p, const struct sa_proto_reader *bytes)
{
    struct sa_sums sums, *to;

    if (!sa_sums_field_read(bytes->at, (size_t)(bytes->end - bytes->at), &sums))
        return SA_FILE_NONE;
    to = add(p, &p->file->memory[SUMS], sizeof(*to));
    if (!to)
        return SA_FILE_NONE;
    *to = sums;
    return (uint32_t)(p->file->memory[SUMS].used / sizeof(*to)) - 1;
}

static void add_sample(struct parser *p, struct sa_proto_reader m)
{
    struct sa_file_sample s = {.frame = (uint32_t)numbers(&p->frames),
                               .value = (uint32_t)numbers(&p->file->memory[VALUES]),
                               .label = (uint32_t)(p->labels.used / sizeof(struct raw_label)),
                               .sums = SA_FILE_NONE};
    struct sa_proto_field f;
    struct sa_file_sample *to;

    while (!p->e->code && sa_proto_next(&m, &f)) {
        if (f.field == 1) {
            add_repeated(p, &p->frames, &f);
        } else if (f.field == 2) {
            add_repeated(p, &p->file->memory[VALUES], &f);
        } else if (f.field == SA_SUMS_FIELD && f.is_bytes) {
            s.sums = add_sums(p, &f.bytes);
        } else if (f.field == 3 && f.is_bytes) {
            uint64_t n[4];
            struct raw_label *label = add(p, &p->labels, sizeof(*label));

            read_numbers(p, f.bytes, n, 4, "a label");
            if (label)
                *label = (struct raw_label){n[1], n[2], n[3]};
        }
    }
    if (m.damaged)
        damaged(p, "a sample");
    s.depth = (uint32_t)numbers(&p->frames) - s.frame;
    s.label_count = (uint32_t)(p->labels.used / sizeof(struct raw_label)) - s.label;
    /* For now the number of values is in place of their index, which follows from it. */
    s.value = (uint32_t)numbers(&p->file->memory[VALUES]) - s.value;
    to = add(p, &p->file->memory[SAMPLES], sizeof(*to));
    if (to)
        *to = s;
}

static void add_mapping(struct parser *p, struct sa_proto_reader m)
{
    struct sa_file_mapping *to = add(p, &p->file->memory[MAPPINGS], sizeof(*to));
    uint64_t n[7];

    read_numbers(p, m, n, 7, "a mapping");
    if (to)
        *to = (struct sa_file_mapping){.id = n[1], .start = n[2], .limit = n[3], .offset = n[4]};
    add_number(p, &p->mapping_strings, n[5]);
    add_number(p, &p->mapping_strings, n[6]);
}

static void add_function(struct parser *p, struct sa_proto_reader m)
{
    struct sa_file_function *to = add(p, &p->file->memory[FUNCTIONS], sizeof(*to));
    uint64_t n[5];

    read_numbers(p, m, n, 5, "a function");
    if (to)
        *to = (struct sa_file_function){.id = n[1]};
    add_number(p, &p->function_strings, n[2]);
    add_number(p, &p->function_strings, n[3]);
    add_number(p, &p->function_strings, n[4]);
}

static void add_location(struct parser *p, struct sa_proto_reader m)
{
    struct sa_file_location l = {.line = (uint32_t)numbers(&p->lines)}, *to;
    uint64_t mapping = 0, n[3];
    struct sa_proto_field f;

    while (!p->e->code && sa_proto_next(&m, &f)) {
        if (f.field == 1 && !f.is_bytes)
            l.id = f.number;
        else if (f.field == 2 && !f.is_bytes)
            mapping = f.number;
        else if (f.field == 3 && !f.is_bytes)
            l.address = f.number;
        else if (f.field == 4 && f.is_bytes) {
            read_numbers(p, f.bytes, n, 3, "a line");
            add_number(p, &p->lines, n[1]);
            add_number(p, &p->file->memory[LINE_NUMBERS], n[2]);
        }
    }
    if (m.damaged)
        damaged(p, "a location");
    l.line_count = (uint32_t)numbers(&p->lines) - l.line;
    add_number(p, &p->location_mappings, mapping);
    to = add(p, &p->file->memory[LOCATIONS], sizeof(*to));
    if (to)
        *to = l;
}

static uint64_t read_difference(struct sa_proto_reader *r)
{
    uint64_t n = sa_proto_read_varint(r);

    return n >> 1 ^ -(n & 1);
}

/* A part of the list of single samples (sampling/export/proto_singles.h). */
static void add_singles(struct parser *p, struct sa_proto_reader r)
{
    struct sa_file_single *last = &p->single, *to;

    while (!p->e->code && r.at < r.end) {
        uint64_t sample = sa_proto_read_varint(&r);

        last->number += read_difference(&r);
        last->ms += read_difference(&r);
        last->sample = sample < SA_FILE_NONE ? (uint32_t)sample : SA_FILE_NONE;
        to = r.damaged ? NULL : add(p, &p->file->memory[SINGLES], sizeof(*to));
        if (to)
            *to = *last;
    }
    if (r.damaged)
        damaged(p, "the list of single samples ends within one");
}

static void add_field(struct parser *p, struct sa_proto_field *f, uint64_t *period_type)
{
    static void (*const messages[])(struct parser *, struct sa_proto_reader) = {
        [1] = add_type,     [2] = add_sample,   [3] = add_mapping,
        [4] = add_location, [5] = add_function, [6] = add_string};

    if (f->field >= 1 && f->field <= 6) {
        if (f->is_bytes)
            messages[f->field](p, f->bytes);
        else
            damaged(p, "a number in place of a message");
    } else if (f->field == 9) {
        p->file->time_ns = (int64_t)f->number;
    } else if (f->field == 10) {
        p->file->duration_ns = (int64_t)f->number;
    } else if (f->field == 11 && f->is_bytes) {
        read_numbers(p, f->bytes, period_type, 3, "the type of the period");
    } else if (f->field == 12) {
        p->file->period = (int64_t)f->number;
    } else if (f->field == 13) {
        add_repeated(p, &p->comments, f);
    } else if (f->field == 14) {
        p->default_type = f->number;
    } else if (f->field == SA_PROTO_SINGLES && f->is_bytes) {
        add_singles(p, f->bytes);
    }
}

static const char *string(struct parser *p, uint64_t number)
{
    const struct sa_buffer *strings = &p->file->memory[STRINGS];

    if (number < numbers(strings))
        return p->file->memory[TEXT].data + ((const uint64_t *)strings->data)[number];
    if (number || numbers(strings))
        damaged(p, "a string that is not there");
    return "";
}

/* Ids and their indices, sorted by id. Every record of the model begins with its id. */
struct id {
    uint64_t id;
    uint32_t index;
};

static int id_order(const void *a, const void *b)
{
    const struct id *x = a, *y = b;

    return x->id < y->id ? -1 : x->id > y->id;
}

static void make_ids(struct parser *p, const struct sa_buffer *records, size_t record_bytes,
                     struct sa_buffer *ret)
{
    size_t count = records->used / record_bytes;
    struct id *ids = add(p, ret, (count + 1) * sizeof(*ids));

    for (size_t i = 0; ids && i < count; i++) {
        memcpy(&ids[i].id, records->data + i * record_bytes, sizeof(ids[i].id));
        ids[i].index = (uint32_t)i;
    }
    if (!ids)
        return;
    ret->used = count * sizeof(*ids);
    qsort(ids, count, sizeof(*ids), id_order);
    for (size_t i = 0; i < count; i++)
        if (!ids[i].id || (i && ids[i].id == ids[i - 1].id))
            damaged(p, "an id that is 0, or there twice");
}

static uint32_t find_id(struct parser *p, const struct sa_buffer *ids, uint64_t id,
                        const char *missing)
{
    const struct id key = {id, 0}, *found = NULL;

    if (ids->used)
        found = bsearch(&key, ids->data, ids->used / sizeof(key), sizeof(key), id_order);
    if (!found)
        damaged(p, missing);
    return found ? found->index : 0;
}

/* Points the model's arrays at their memory. */
static void set_arrays(struct sa_profile_file *f)
{
    struct sa_buffer *m = f->memory;

#define ARRAY(array, number, which)                                                                \
    (f->array = (void *)m[which].data, f->number = (uint32_t)(m[which].used / sizeof(*f->array)))
    ARRAY(types, type_count, TYPES);
    ARRAY(mappings, mapping_count, MAPPINGS);
    ARRAY(functions, function_count, FUNCTIONS);
    ARRAY(locations, location_count, LOCATIONS);
    ARRAY(samples, sample_count, SAMPLES);
    ARRAY(labels, label_count, LABELS);
    ARRAY(frames, frame_count, FRAMES);
    ARRAY(lines, line_count, LINES);
    f->line_numbers = (int64_t *)(void *)m[LINE_NUMBERS].data;
    ARRAY(values, value_count, VALUES);
    ARRAY(comments, comment_count, COMMENTS);
    ARRAY(sums, sum_count, SUMS);
    ARRAY(singles, single_count, SINGLES);
#undef ARRAY
}

static void resolve_strings(struct parser *p)
{
    struct sa_profile_file *f = p->file;
    const uint64_t *n = (const uint64_t *)p->types.data;

    for (uint32_t i = 0; i < f->type_count; i++)
        f->types[i] = (struct sa_file_type){string(p, n[2 * i]), string(p, n[2 * i + 1])};
    n = (const uint64_t *)p->mapping_strings.data;
    for (uint32_t i = 0; i < f->mapping_count; i++) {
        f->mappings[i].file = string(p, n[2 * i]);
        f->mappings[i].build_id = string(p, n[2 * i + 1]);
    }
    n = (const uint64_t *)p->function_strings.data;
    for (uint32_t i = 0; i < f->function_count; i++) {
        f->functions[i].name = string(p, n[3 * i]);
        f->functions[i].system_name = string(p, n[3 * i + 1]);
        f->functions[i].file = string(p, n[3 * i + 2]);
    }
    n = (const uint64_t *)p->comments.data;
    for (uint32_t i = 0; i < f->comment_count; i++)
        f->comments[i] = string(p, n[i]);
    for (uint32_t i = 0; i < f->label_count; i++) {
        const struct raw_label *l = (const struct raw_label *)p->labels.data + i;

        f->labels[i] =
            (struct sa_file_label){string(p, l->key), string(p, l->text), (int64_t)l->number};
    }
    f->default_type = string(p, p->default_type);
}

static void resolve_ids(struct parser *p)
{
    struct sa_profile_file *f = p->file;
    struct sa_buffer mappings = {0}, functions = {0}, locations = {0};

    make_ids(p, &f->memory[MAPPINGS], sizeof(*f->mappings), &mappings);
    make_ids(p, &f->memory[FUNCTIONS], sizeof(*f->functions), &functions);
    make_ids(p, &f->memory[LOCATIONS], sizeof(*f->locations), &locations);
    for (uint32_t i = 0; !p->e->code && i < f->location_count; i++) {
        uint64_t id = ((const uint64_t *)p->location_mappings.data)[i];

        f->locations[i].mapping =
            id ? find_id(p, &mappings, id, "a mapping that is not there") : SA_FILE_NONE;
    }
    for (uint32_t i = 0; !p->e->code && i < f->line_count; i++)
        f->lines[i] = find_id(p, &functions, ((const uint64_t *)p->lines.data)[i],
                              "a function that is not there");
    for (uint32_t i = 0; !p->e->code && i < f->frame_count; i++)
        f->frames[i] = find_id(p, &locations, ((const uint64_t *)p->frames.data)[i],
                               "a location that is not there");
    sa_buffer_free(&mappings);
    sa_buffer_free(&functions);
    sa_buffer_free(&locations);
}

/* Makes the arrays whose records differ from what was collected. */
static void resolve(struct parser *p, const uint64_t *period_type)
{
    struct sa_profile_file *f = p->file;
    struct sa_buffer *m = f->memory;

    add(p, &m[TYPES], numbers(&p->types) / 2 * sizeof(*f->types));
    add(p, &m[LABELS], p->labels.used / sizeof(struct raw_label) * sizeof(*f->labels));
    add(p, &m[FRAMES], numbers(&p->frames) * sizeof(*f->frames));
    add(p, &m[LINES], numbers(&p->lines) * sizeof(*f->lines));
    add(p, &m[COMMENTS], numbers(&p->comments) * sizeof(*f->comments));
    if (p->e->code)
        return;
    set_arrays(f);
    if (!f->type_count)
        damaged(p, "there is no sample type");
    for (uint32_t i = 0, value = 0; i < f->sample_count; i++) {
        if (f->samples[i].value != f->type_count) {
            damaged(p, "a sample without a value for each type");
            return;
        }
        f->samples[i].value = value;
        value += f->type_count;
    }
    for (uint32_t i = 0; i < f->value_count; i++)
        f->difference |= f->values[i] < 0;
    for (uint32_t i = 0; i < f->single_count; i++)
        if (f->singles[i].sample >= f->sample_count)
            damaged(p, "a single sample of a row that is not there");
    resolve_strings(p);
    f->period_type = (struct sa_file_type){string(p, period_type[1]), string(p, period_type[2])};
    resolve_ids(p);
}

bool sa_profile_file_parse(struct sa_profile_file *ret, const void *data, size_t bytes,
                           struct sa_error *e)
{
    struct parser p = {.file = ret, .e = e};
    struct sa_proto_reader r = sa_proto_reader(data, bytes);
    struct sa_proto_field f;
    uint64_t period_type[3] = {0};
    struct sa_buffer *left[] = {
        &p.mapping_strings, &p.function_strings, &p.labels, &p.frames,
        &p.lines,           &p.comments,         &p.types,  &p.location_mappings};

    memset(ret, 0, sizeof(*ret));
    if (bytes > SA_FILE_BYTES_MAX)
        sa_error_set(e, SA_EXIT_FAILED, "it has more than %u MiB", SA_FILE_BYTES_MAX >> 20);
    while (!e->code && sa_proto_next(&r, &f))
        add_field(&p, &f, period_type);
    if (r.damaged)
        damaged(&p, "a field is cut short");
    if (!e->code)
        resolve(&p, period_type);
    for (size_t i = 0; i < sizeof(left) / sizeof(*left); i++)
        sa_buffer_free(left[i]);
    if (e->code)
        sa_profile_file_free(ret);
    return !e->code;
}
