/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adds samples up by keys; see report_rows.h. A frame is a line of a location, or a location that
 * has none. The text of each frame gets its number once, whatever the number of stacks.
 */
#include "tool/report/report_rows.h"

#include "tool/base/array.h"
#include "tool/base/human.h"

#include <math.h>
#include <stdio.h>

#define NO_STACK  "[no stack]"
#define EXACT_MAX 10240 /* sizes up to here differ by less than a digit of KiB */

/* Rows while they are made. */
struct maker {
    const struct sa_report *r;
    enum sa_report_table table;
    struct sa_report_rows *rows;
    uint32_t *frame_keys; /* of each frame, by its number; lines first, then locations */
    uint32_t *stack;      /* the numbers of a stack's frames */
    size_t stack_depth, stack_cap;
    bool failed;
};

/* Adds a sample, whose group was computed once. */
static void add_sample(const struct sa_report *r, uint32_t sample, struct sa_file_sums *sums)
{
    if (r->kind == SA_FILE_EVER)
        sa_file_sums_add(r->file, r->metric, sample, sums);
    else
        sa_file_sums_add_group(sums, r->kind,
                               r->file->values[r->file->samples[sample].value + r->metric],
                               &r->groups[sample]);
}

bool sa_report_open(struct sa_report *r, const struct sa_profile_file *file, uint32_t metric)
{
    *r = (struct sa_report){.file = file,
                            .metric = metric,
                            .kind = sa_file_kind(file, metric),
                            .objects = sa_file_objects(file, metric)};
    r->groups = calloc((size_t)file->sample_count + 1, sizeof(*r->groups));
    for (uint32_t i = 0; r->groups && i < file->sample_count; i++) {
        int64_t value = file->values[file->samples[i].value + metric];

        if (!value)
            continue;
        if (!sa_file_group(file, metric, i, &r->groups[i]))
            r->groups[i].p = 0;
        add_sample(r, i, &r->all);
        r->has_lives |= sa_file_number(file, &file->samples[i], "avg_lifetime") > 0;
    }
    return r->groups != NULL;
}

void sa_report_close(struct sa_report *r)
{
    free(r->groups);
}

static void add_life(const struct maker *m, uint32_t sample, struct sa_report_lives *lives)
{
    const struct sa_profile_file *f = m->r->file;
    const struct sa_file_sample *s = &f->samples[sample];
    double blocks = m->r->objects == SA_FILE_NONE ? 1 : (double)f->values[s->value + m->r->objects];
    int64_t min = sa_file_number(f, s, "min_lifetime"), max = sa_file_number(f, s, "max_lifetime");

    if (!lives->blocks || lives->min_ns > min)
        lives->min_ns = min;
    if (lives->max_ns < max)
        lives->max_ns = max;
    lives->blocks += blocks;
    lives->sum_ns += blocks * (double)sa_file_number(f, s, "avg_lifetime");
}

/* Adds a sample to the row of a key. */
static void add(struct maker *m, uint32_t sample, const void *key, size_t bytes)
{
    struct sa_report_rows *rows = m->rows;
    uint32_t number = sa_intern(&rows->keys, key, bytes);
    struct sa_report_row *row;

    if (number == SA_INTERN_NONE ||
        !sa_array_room(&rows->of, &rows->cap, (size_t)number + 1, sizeof(*rows->of), 256)) {
        m->failed = true;
        return;
    }
    row = &rows->of[number];
    if (number == rows->count) {
        *row = (struct sa_report_row){.key = number};
        rows->count++;
    }
    if (row->sample == sample + 1)
        return; /* a recursion */
    row->sample = sample + 1;
    add_sample(m->r, sample, &row->sums);
    if (m->r->has_lives)
        add_life(m, sample, &row->lives);
}

static void add_text(struct maker *m, uint32_t sample, const char *text)
{
    add(m, sample, text, strlen(text) + 1);
}

/* The text of a frame: its function, its line, or both of them. number: of the line in the file's
 * array, or SA_FILE_NONE. */
static uint32_t intern_frame(struct maker *m, const struct sa_file_location *l, uint32_t number)
{
    const struct sa_profile_file *f = m->r->file;
    const char *name = sa_file_location_name(f, l), *file = "";
    int64_t at = number == SA_FILE_NONE ? 0 : f->line_numbers[number];
    char *text = NULL, line[24] = "";
    uint32_t key = SA_INTERN_NONE;
    int bytes;

    if (number != SA_FILE_NONE) {
        name = f->functions[f->lines[number]].name;
        file = f->functions[f->lines[number]].file;
    }
    if (at)
        snprintf(line, sizeof(line), ":%lld", (long long)at);
    if (m->table == SA_REPORT_FUNCTION_FLAT || m->table == SA_REPORT_FUNCTION)
        return sa_intern(&m->rows->frames, name, strlen(name) + 1);
    if (m->table != SA_REPORT_STACK && !*file)
        return sa_intern(&m->rows->frames, name, strlen(name) + 1);
    if (m->table == SA_REPORT_STACK)
        bytes = asprintf(&text, "%s%c%s%s", name, '\0', file, line);
    else
        bytes = asprintf(&text, "%c%s%s", SA_REPORT_LINE_MARK, file, line);
    if (bytes < 0)
        return SA_INTERN_NONE;
    key = sa_intern(&m->rows->frames, text, (size_t)bytes + 1);
    free(text);
    return key;
}

static void intern_frames(struct maker *m)
{
    const struct sa_profile_file *f = m->r->file;
    uint32_t key;

    m->frame_keys = calloc((size_t)f->line_count + f->location_count + 1, sizeof(*m->frame_keys));
    m->failed = !m->frame_keys;
    for (uint32_t i = 0; !m->failed && i < f->location_count; i++) {
        const struct sa_file_location *l = &f->locations[i];

        for (uint32_t k = 0; k < l->line_count; k++) {
            key = m->frame_keys[l->line + k] = intern_frame(m, l, l->line + k);
            m->failed |= key == SA_INTERN_NONE;
        }
        if (!l->line_count) {
            key = m->frame_keys[f->line_count + i] = intern_frame(m, l, SA_FILE_NONE);
            m->failed |= key == SA_INTERN_NONE;
        }
    }
}

static void add_frame(struct maker *m, uint32_t sample, uint32_t frame)
{
    size_t bytes;
    const void *key = sa_intern_key(&m->rows->frames, m->frame_keys[frame], &bytes);

    if (m->table != SA_REPORT_STACK) {
        add(m, sample, key, bytes);
        return;
    }
    if (sa_array_room(&m->stack, &m->stack_cap, m->stack_depth + 1, sizeof(*m->stack), 64))
        m->stack[m->stack_depth++] = m->frame_keys[frame];
    else
        m->failed = true;
}

/* Adds a sample by the frames of its stack, the leaf first. */
static void add_stack(struct maker *m, uint32_t sample)
{
    const struct sa_profile_file *f = m->r->file;
    const struct sa_file_sample *s = &f->samples[sample];
    bool flat = m->table == SA_REPORT_FUNCTION_FLAT || m->table == SA_REPORT_LINE_FLAT;

    m->stack_depth = 0;
    for (uint32_t k = 0; k < s->depth && !(flat && k); k++) {
        uint32_t location = f->frames[s->frame + k];
        const struct sa_file_location *l = &f->locations[location];

        for (uint32_t n = 0; n < l->line_count && !(flat && n); n++)
            add_frame(m, sample, l->line + n);
        if (!l->line_count)
            add_frame(m, sample, f->line_count + location);
    }
    if (m->table == SA_REPORT_STACK)
        add(m, sample, m->stack, m->stack_depth * sizeof(*m->stack));
    else if (!s->depth)
        add_text(m, sample, NO_STACK);
}

static const char *library(const struct sa_profile_file *f, const struct sa_file_sample *s)
{
    return s->depth ? sa_file_library_name(f, &f->locations[f->frames[s->frame]]) : NO_STACK;
}

/* The power of ten that a time begins with: "1 ms to 10 ms". */
static void life_text(int64_t ns, char *ret, size_t cap)
{
    char low[SA_HUMAN_BYTES], high[SA_HUMAN_BYTES];
    double from = 1;

    while (from * 10 <= (double)ns)
        from *= 10;
    sa_human_time(from, low);
    sa_human_time(from * 10, high);
    snprintf(ret, cap, "%s to %s", low, high);
}

static void add_label(struct maker *m, uint32_t sample)
{
    const struct sa_profile_file *f = m->r->file;
    const struct sa_file_sample *s = &f->samples[sample];
    int64_t bytes = sa_file_number(f, s, "bytes"), ns = sa_file_number(f, s, "avg_lifetime");
    const char *text = NULL;
    char room[2 * SA_HUMAN_BYTES + 8];

    if (m->table == SA_REPORT_LIBRARY) {
        text = library(f, s);
    } else if (m->table == SA_REPORT_THREAD) {
        text = sa_file_text(f, s, "thread");
    } else if (m->table == SA_REPORT_LIFETIME && ns > 0) {
        life_text(ns, room, sizeof(room));
        text = room;
    } else if (m->table == SA_REPORT_SIZE && bytes > 0) {
        text = room;
        if (bytes <= EXACT_MAX)
            snprintf(room, sizeof(room), "%lld B", (long long)bytes);
        else
            sa_human_bytes((double)bytes, room);
    }
    add_text(m, sample, text ? text : SA_REPORT_NOT_RECORDED);
}

/* The keys that row_order compares. */
static const struct sa_report_rows *sorted_rows;

static int row_order(const void *a, const void *b)
{
    const struct sa_report_row *x = a, *y = b;
    size_t n, k;
    const void *s = sa_intern_key(&sorted_rows->keys, x->key, &n);
    const void *t = sa_intern_key(&sorted_rows->keys, y->key, &k);
    double p = fabs((double)x->sums.value), q = fabs((double)y->sums.value);
    int order;

    if (p != q)
        return p > q ? -1 : 1;
    if (x->sums.value != y->sums.value)
        return x->sums.value > y->sums.value ? -1 : 1;
    order = n && k ? memcmp(s, t, n < k ? n : k) : 0;
    return order ? order : (n > k) - (n < k);
}

bool sa_report_rows(const struct sa_report *r, enum sa_report_table table,
                    struct sa_report_rows *ret)
{
    struct maker m = {.r = r, .table = table, .rows = ret};
    bool by_frames = table <= SA_REPORT_LINE || table == SA_REPORT_STACK;

    memset(ret, 0, sizeof(*ret));
    if (by_frames)
        intern_frames(&m);
    for (uint32_t i = 0; !m.failed && i < r->file->sample_count; i++) {
        if (!r->file->values[r->file->samples[i].value + r->metric])
            continue;
        if (by_frames)
            add_stack(&m, i);
        else
            add_label(&m, i);
    }
    free(m.frame_keys);
    free(m.stack);
    sorted_rows = ret;
    if (ret->count)
        qsort(ret->of, ret->count, sizeof(*ret->of), row_order);
    if (m.failed)
        sa_report_rows_free(ret);
    return !m.failed;
}

void sa_report_rows_free(struct sa_report_rows *rows)
{
    sa_intern_free(&rows->keys);
    sa_intern_free(&rows->frames);
    free(rows->of);
    memset(rows, 0, sizeof(*rows));
}

const char *sa_report_key(const struct sa_report_rows *rows, const struct sa_report_row *row)
{
    size_t bytes;

    return sa_intern_key(&rows->keys, row->key, &bytes);
}

size_t sa_report_depth(const struct sa_report_rows *rows, const struct sa_report_row *row)
{
    size_t bytes;

    sa_intern_key(&rows->keys, row->key, &bytes);
    return bytes / sizeof(uint32_t);
}

void sa_report_frame(const struct sa_report_rows *rows, const struct sa_report_row *row, size_t at,
                     const char **name, const char **line)
{
    uint32_t number;
    size_t bytes;

    memcpy(&number,
           (const char *)sa_intern_key(&rows->keys, row->key, &bytes) + at * sizeof(number),
           sizeof(number));
    *name = sa_intern_key(&rows->frames, number, &bytes);
    *line = *name + strlen(*name) + 1;
}
