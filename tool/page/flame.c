/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The page of a profile file; see flame.h. The page is a frame that the build makes of tool/page/,
 * and between its halves the profile as JSON, which tool/page/profile.js reads:
 *
 *   names, libraries, files
 *                     strings; files are sources, the first one is ""
 *   frames            triples: indices of a name, a library, a file
 *   places            pairs: index of a frame, a line or 0
 *   stacks            for each: how many places it has in common with the one before, how many
 *                     follow, and these; root first
 *   blocks            pairs: bytes of a block, probability that it is sampled; 0: not known
 *   stack, block, thread, values, samples
 *                     columns of the rows. Of `values` and `samples` there is one for each metric;
 *                     `samples` is the number of samples that the value stands for, 0 where that is
 *                     not known
 *
 * Of a comparison, the rows of both profiles are there, and:
 *
 *   side              a column: 0 for a row of the earlier profile, 1 for one of the later
 *   samples           of one profile only; -1 where that is not known
 *   compared          the earlier profile, and of each metric what kind of change it is
 *
 * Strings come from a file that is not trusted. They get into the page through sa_json_put_string
 * only.
 */
#include "tool/page/flame.h"

#include "tool/base/json.h"
#include "tool/base/text.h"
#include "tool/file/file_interval.h"
#include "tool/page/flame_frames.h"
#include "tool/page/page.h"
#include "tool/reading/input.h"
#include "tool/reading/output.h"
#include "tool/symbol/demangle.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NAME_MAX_BYTES 4096 /* of a function; the rest is cut */
#define TEXT_MAX_BYTES 1024 /* of any other string */

struct writer {
    const struct sa_profile_file *file;
    const struct sa_flame_diff *diff; /* NULL: the page is of one profile */
    const struct sa_flame_frames *frames;
    struct sa_buffer *out;
    bool fine; /* there was always memory */
};

static void put(struct writer *w, const char *text)
{
    w->fine = w->fine && sa_text_put(w->out, text, strlen(text));
}

static void put_number(struct writer *w, long long number)
{
    char digits[24], *at = digits + sizeof(digits);
    unsigned long long rest =
        number < 0 ? 0 - (unsigned long long)number : (unsigned long long)number;

    do
        *--at = (char)('0' + rest % 10);
    while (rest /= 10);
    if (number < 0)
        *--at = '-';
    w->fine = w->fine && sa_text_put(w->out, at, (size_t)(digits + sizeof(digits) - at));
}

/* JSON has no infinity, so that is null. */
static void put_double(struct writer *w, double number)
{
    if (isfinite(number))
        w->fine = w->fine && sa_text_add(w->out, "%.17g", number);
    else
        put(w, "null");
}

static void put_string(struct writer *w, const char *text, size_t cap)
{
    w->fine = w->fine && sa_json_put_string(w->out, text, cap);
}

static void put_key(struct writer *w, const char *key)
{
    w->fine = w->fine && sa_text_add(w->out, ",\n\"%s\":", key);
}

/* A comma between the elements of a list. */
static void next(struct writer *w, size_t i)
{
    if (i)
        put(w, ",");
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

static void put_texts(struct writer *w, const char *key, const char *const *texts, uint32_t count)
{
    put_key(w, key);
    put(w, "[");
    for (uint32_t i = 0; i < count; i++) {
        next(w, i);
        put_string(w, texts[i], TEXT_MAX_BYTES);
    }
    put(w, "]");
}

/* What is compared, and how the metrics are. */
static void put_compared(struct writer *w, const char *before)
{
    static const char *const kinds[] = {[SA_DIFF_PLAIN] = "plain",
                                        [SA_DIFF_IN_USE] = "in use",
                                        [SA_DIFF_ALLOCATED] = "allocated",
                                        [SA_DIFF_SINCE] = "since"};
    const struct sa_flame_diff *d = w->diff;

    put_key(w, "compared");
    put(w, "{\"file\":");
    put_string(w, base_name(before), TEXT_MAX_BYTES);
    put(w, ",\"time\":");
    put_number(w, d->before->time_ns / 1000000);
    put(w, ",\"metrics\":[");
    for (uint32_t i = 0; i < d->both.type_count; i++) {
        const struct sa_diff *of = &d->metrics[i];

        next(w, i);
        w->fine = w->fine && sa_text_add(w->out, "{\"kind\":\"%s\",\"common\":%llu,\"error\":",
                                         kinds[of->kind], (unsigned long long)of->common.samples);
        put_double(w, of->error);
        put(w, ",\"weight\":");
        put_double(w, of->weight);
        put(w, "}");
    }
    put(w, "]}");
}

static void put_head(struct writer *w, uint32_t metric, const char *title)
{
    const struct sa_profile_file *f = w->file;
    static const char *const kinds[] = {[SA_FILE_OTHER] = "other",
                                        [SA_FILE_BYTES] = "bytes",
                                        [SA_FILE_BLOCKS] = "blocks",
                                        [SA_FILE_EVER] = "other",
                                        [SA_FILE_PART] = "part"};
    struct sa_unseen unseen = w->diff ? w->diff->metrics[metric].unseen : sa_file_unseen(f);

    put(w, "{\"file\":");
    put_string(w, base_name(title), TEXT_MAX_BYTES);
    put_key(w, "program");
    put_string(w, f->mapping_count ? base_name(f->mappings[0].file) : "", TEXT_MAX_BYTES);
    put_key(w, "tool");
    put_string(w, "salloc " SALLOC_VERSION, TEXT_MAX_BYTES);
    put_key(w, "time");
    put_number(w, f->time_ns / 1000000);
    put_key(w, "period");
    put_number(w, f->period);
    put_key(w, "unseen");
    put(w, "{\"bytes\":");
    put_double(w, unseen.bytes);
    put(w, ",\"blocks\":");
    put_double(w, unseen.blocks);
    put(w, "}");
    put_texts(w, "comments", f->comments, f->comment_count);
    put_key(w, "shown");
    put_number(w, metric);
    put_key(w, "metrics");
    put(w, "[");
    for (uint32_t i = 0; i < f->type_count; i++) {
        next(w, i);
        put(w, "{\"name\":");
        put_string(w, f->types[i].name, TEXT_MAX_BYTES);
        put(w, ",\"unit\":");
        put_string(w, f->types[i].unit, TEXT_MAX_BYTES);
        put(w, ",\"kind\":\"");
        put(w, kinds[sa_file_kind(f, i)]);
        put(w, "\"}");
    }
    put(w, "]");
}

static void put_frames(struct writer *w)
{
    const struct sa_flame_frames *f = w->frames;

    put_key(w, "names");
    put(w, "[");
    for (uint32_t i = 0; i < f->name_count; i++) {
        char *plain = sa_demangle(f->names[i]);

        next(w, i);
        put_string(w, plain ? plain : f->names[i], NAME_MAX_BYTES);
        free(plain);
    }
    put(w, "]");
    put_texts(w, "libraries", f->libraries, f->library_count);
    put_texts(w, "files", f->files, f->file_count);
    put_texts(w, "threads", f->threads, f->thread_count);
    put_key(w, "frames");
    put(w, "[");
    for (uint32_t i = 0; i < f->frame_count; i++) {
        next(w, i);
        put_number(w, f->frames[i].name);
        put(w, ",");
        put_number(w, f->frames[i].library);
        put(w, ",");
        put_number(w, f->frames[i].file);
    }
    put(w, "]");
    put_key(w, "places");
    put(w, "[");
    for (uint32_t i = 0; i < f->place_count; i++) {
        next(w, i);
        put_number(w, f->places[i].frame);
        put(w, ",");
        put_number(w, f->places[i].line);
    }
    put(w, "]");
}

/* The stacks, and the number of its stack in each row. */
static void put_stacks(struct writer *w)
{
    const struct sa_flame_frames *f = w->frames;
    const struct sa_flame_row *before = NULL;
    struct sa_buffer numbers = {NULL, 0, 0};
    long long stack = -1;

    put_key(w, "stacks");
    put(w, "[");
    for (uint32_t i = 0; w->fine && i < f->row_count; i++) {
        const struct sa_flame_row *row = &f->rows[i];
        const uint32_t *frames = f->stacks + row->stack;
        uint32_t common = 0;

        while (before && common < before->depth && common < row->depth &&
               f->stacks[before->stack + common] == frames[common])
            common++;
        if (!before || common < before->depth || common < row->depth) {
            next(w, (size_t)++stack);
            put_number(w, common);
            put(w, ",");
            put_number(w, row->depth - common);
            for (uint32_t k = common; k < row->depth; k++) {
                put(w, ",");
                put_number(w, frames[k]);
            }
        }
        before = row;
        w->fine = w->fine && sa_text_add(&numbers, "%s%lld", i ? "," : "", stack);
    }
    put(w, "]");
    put_key(w, "stack");
    put(w, "[");
    w->fine = w->fine && sa_text_put(w->out, numbers.data, numbers.used);
    put(w, "]");
    sa_buffer_free(&numbers);
}

static int blocks_order(const void *a, const void *b)
{
    const struct sa_flame_blocks *x = a, *y = b;

    if (x->size != y->size)
        return x->size < y->size ? -1 : 1;
    return (x->p > y->p) - (x->p < y->p);
}

/* The blocks of each row. */
static void put_blocks(struct writer *w)
{
    const struct sa_flame_frames *f = w->frames;
    struct sa_flame_blocks *blocks = calloc((size_t)f->row_count + 1, sizeof(*blocks));
    size_t count = 0;

    w->fine = w->fine && blocks;
    for (uint32_t i = 0; w->fine && i < f->row_count; i++)
        blocks[i] = f->rows[i].blocks;
    if (w->fine)
        qsort(blocks, f->row_count, sizeof(*blocks), blocks_order);
    put_key(w, "blocks");
    put(w, "[");
    for (uint32_t i = 0; w->fine && i < f->row_count; i++) {
        if (count && blocks_order(&blocks[count - 1], &blocks[i]) == 0)
            continue;
        next(w, count);
        blocks[count++] = blocks[i];
        put_number(w, blocks[count - 1].size);
        put(w, ",");
        put_double(w, blocks[count - 1].p);
    }
    put(w, "]");
    put_key(w, "block");
    put(w, "[");
    for (uint32_t i = 0; w->fine && i < f->row_count; i++) {
        struct sa_flame_blocks *at =
            bsearch(&f->rows[i].blocks, blocks, count, sizeof(*blocks), blocks_order);

        next(w, i);
        put_number(w, at - blocks);
    }
    put(w, "]");
    free(blocks);
}

/* The thread of each row, and of a comparison which profile it is of. */
static void put_threads(struct writer *w)
{
    const struct sa_flame_frames *f = w->frames;

    if (w->diff) {
        put_key(w, "side");
        put(w, "[");
        for (uint32_t i = 0; i < f->row_count; i++) {
            next(w, i);
            put(w, f->rows[i].sample < w->diff->before->sample_count ? "0" : "1");
        }
        put(w, "]");
    }

    put_key(w, "thread");
    put(w, "[");
    for (uint32_t i = 0; i < f->row_count; i++) {
        next(w, i);
        put_number(w, f->rows[i].thread == SA_FILE_NONE ? -1 : (long long)f->rows[i].thread);
    }
    put(w, "]");
}

/* The number of samples behind a number. Of a comparison: those of one profile only, and -1 where
 * they are not known. */
static long long samples_of(const struct writer *w, uint32_t metric, uint32_t sample)
{
    struct sa_group group;

    if (w->diff) {
        const struct sa_group *of = sa_flame_diff_group(w->diff, metric, sample);

        return of ? (long long)of->samples : -1;
    }
    return sa_file_group(w->file, metric, sample, &group) ? (long long)group.samples : 0;
}

static void put_values(struct writer *w)
{
    const struct sa_profile_file *file = w->file;
    const struct sa_flame_frames *f = w->frames;

    put_key(w, "values");
    put(w, "[");
    for (uint32_t m = 0; m < file->type_count; m++) {
        put(w, m ? ",\n[" : "[");
        for (uint32_t i = 0; i < f->row_count; i++) {
            next(w, i);
            put_number(w, file->values[file->samples[f->rows[i].sample].value + m]);
        }
        put(w, "]");
    }
    put(w, "]");
    put_key(w, "samples");
    put(w, "[");
    for (uint32_t m = 0; m < file->type_count; m++) {
        enum sa_file_kind kind = sa_file_kind(file, m);
        bool known = kind != SA_FILE_OTHER && kind != SA_FILE_EVER;

        put(w, m ? ",\n[" : "[");
        for (uint32_t i = 0; known && i < f->row_count; i++) {
            next(w, i);
            put_number(w, samples_of(w, m, f->rows[i].sample));
        }
        put(w, "]");
    }
    put(w, "]");
}

/* before: the title of the earlier profile of a comparison. */
static bool put_page(struct writer *w, uint32_t metric, const char *title, const char *before,
                     struct sa_error *e)
{
    struct sa_flame_frames frames;

    if (!sa_flame_frames_make(w->file, &frames, e))
        return false;
    for (uint32_t i = 0; w->diff && i < frames.row_count; i++)
        frames.rows[i].blocks.p = sa_flame_diff_probability(w->diff, frames.rows[i].sample);
    w->frames = &frames;
    w->fine = sa_text_put(w->out, sa_page_head, sa_page_head_bytes);
    put_head(w, metric, title);
    if (w->diff)
        put_compared(w, before);
    put_frames(w);
    put_stacks(w);
    put_blocks(w);
    put_threads(w);
    put_values(w);
    put(w, "}\n");
    w->fine = w->fine && sa_text_put(w->out, sa_page_tail, sa_page_tail_bytes);
    sa_flame_frames_free(&frames);
    if (!w->fine)
        sa_error_set(e, SA_EXIT_FAILED, "there is no memory for the page");
    return w->fine;
}

bool sa_flame_put(const struct sa_profile_file *file, uint32_t metric, const char *title,
                  struct sa_buffer *out, struct sa_error *e)
{
    struct writer w = {.file = file, .out = out};

    return put_page(&w, metric, title, NULL, e);
}

bool sa_flame_put_diff(const struct sa_flame_diff *diff, uint32_t metric, const char *before,
                       const char *after, struct sa_buffer *out, struct sa_error *e)
{
    struct writer w = {.file = &diff->both, .diff = diff, .out = out};

    return put_page(&w, metric, after, before, e);
}

bool sa_flame_write(const char *what, const char *metric, const char *title, const char *page,
                    struct sa_error *e)
{
    struct sa_buffer out = {NULL, 0, 0};
    struct sa_profile_file file;
    uint32_t shown;

    if (!sa_input_read(&file, what, e))
        return false;
    shown = sa_file_metric(&file, metric);
    if (shown == SA_FILE_NONE)
        sa_error_set(e, SA_EXIT_USAGE, "%s has no metric '%s'", what, metric);
    else if (sa_flame_put(&file, shown, title, &out, e))
        sa_output_bytes(out.data, out.used, false, page, e);
    sa_buffer_free(&out);
    sa_profile_file_free(&file);
    return !e->code;
}

bool sa_flame_write_diff(const struct sa_profile_file *before, const struct sa_profile_file *after,
                         const char *metric, const char *const titles[2], const char *page,
                         struct sa_error *e)
{
    struct sa_buffer out = {NULL, 0, 0};
    struct sa_flame_diff diff;
    uint32_t shown;

    if (!sa_flame_diff_make(&diff, before, after, metric, &shown, e))
        return false;
    if (sa_flame_put_diff(&diff, shown, titles[0], titles[1], &out, e))
        sa_output_bytes(out.data, out.used, false, page, e);
    sa_buffer_free(&out);
    sa_flame_diff_free(&diff);
    return !e->code;
}
