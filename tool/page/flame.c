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
 *   ever              of rows that have sums of their own: the row, and these sums
 *   lives             of profiles of lifetimes: three columns, in nanoseconds
 *   blocks            pairs: bytes of a block, probability that it is sampled; 0: not known
 *   stack, block, thread, values, samples
 *                     columns of the rows. Of `values` and `samples` there is one for each metric;
 *                     `samples` is the number of samples that the value stands for, 0 where that is
 *                     not known
 *
 * Of a time line, there are "moments" (flame_moments.h) in place of values and samples. Of a
 * comparison, the rows of both profiles are there, and:
 *
 *   side              a column: 0 for a row of the earlier profile, 1 for one of the later
 *   samples           of one profile only; -1 where that is not known
 *   compared          the earlier profile, and of each metric what kind of change it is
 *
 * Strings come from a file that is not trusted. They get into the page through sa_json_put_string
 * only.
 */
#include "tool/page/flame.h"

#include "tool/base/note.h"
#include "tool/base/text.h"
#include "tool/file/file_interval.h"
#include "tool/page/flame_frames.h"
#include "tool/page/flame_moments.h"
#include "tool/page/page.h"
#include "tool/page/page_writer.h"
#include "tool/symbol/debuginfod.h"
#include "tool/symbol/demangle.h"

#include <stdlib.h>
#include <string.h>

struct writer {
    struct sa_page_writer to;
    const struct sa_profile_file *file;
    const struct sa_flame_diff *diff; /* NULL: no comparison */
    const struct sa_moments *moments; /* NULL: no time line */
    bool events;                      /* it is that of an event trace */
    const struct sa_flame_frames *frames;
};

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

static void put_texts(struct writer *w, const char *key, const char *const *texts, uint32_t count)
{
    sa_page_put_key(&w->to, key);
    sa_page_put(&w->to, "[");
    for (uint32_t i = 0; i < count; i++) {
        sa_page_next(&w->to, i);
        sa_page_put_string(&w->to, texts[i], SA_PAGE_TEXT_MAX);
    }
    sa_page_put(&w->to, "]");
}

/* What is compared, and how the metrics are. */
static void put_compared(struct writer *w, const char *before)
{
    static const char *const kinds[] = {[SA_DIFF_PLAIN] = "plain",
                                        [SA_DIFF_IN_USE] = "in use",
                                        [SA_DIFF_ALLOCATED] = "allocated",
                                        [SA_DIFF_SINCE] = "since"};
    const struct sa_flame_diff *d = w->diff;

    sa_page_put_key(&w->to, "compared");
    sa_page_put(&w->to, "{\"file\":");
    sa_page_put_string(&w->to, base_name(before), SA_PAGE_TEXT_MAX);
    sa_page_put(&w->to, ",\"time\":");
    sa_page_put_number(&w->to, d->before->time_ns / 1000000);
    sa_page_put(&w->to, ",\"metrics\":[");
    for (uint32_t i = 0; i < d->both.type_count; i++) {
        const struct sa_diff *of = &d->metrics[i];

        sa_page_next(&w->to, i);
        w->to.fine =
            w->to.fine &&
            sa_text_add(w->to.out, "{\"kind\":\"%s\",\"common\":%lld,\"error\":", kinds[of->kind],
                        of->common.known ? (long long)of->common.samples : -1);
        sa_page_put_double(&w->to, of->error);
        sa_page_put(&w->to, ",\"weight\":");
        sa_page_put_double(&w->to, of->weight);
        sa_page_put(&w->to, "}");
    }
    sa_page_put(&w->to, "]}");
}

static void put_head(struct writer *w, uint32_t metric, const char *title)
{
    const struct sa_profile_file *f = w->file;
    static const char *const kinds[] = {[SA_FILE_OTHER] = "other",
                                        [SA_FILE_BYTES] = "bytes",
                                        [SA_FILE_BLOCKS] = "blocks",
                                        [SA_FILE_EVER] = "ever",
                                        [SA_FILE_PART] = "part"};
    struct sa_unseen unseen = w->diff ? w->diff->metrics[metric].unseen : sa_file_unseen(f);

    sa_page_put(&w->to, "{\"file\":");
    sa_page_put_string(&w->to, base_name(title), SA_PAGE_TEXT_MAX);
    sa_page_put_key(&w->to, "program");
    sa_page_put_string(&w->to, f->mapping_count ? base_name(f->mappings[0].file) : "",
                       SA_PAGE_TEXT_MAX);
    sa_page_put_key(&w->to, "tool");
    sa_page_put_string(&w->to, "salloc " SALLOC_VERSION, SA_PAGE_TEXT_MAX);
    sa_page_put_key(&w->to, "time");
    sa_page_put_number(&w->to, f->time_ns / 1000000);
    sa_page_put_key(&w->to, "period");
    sa_page_put_number(&w->to, sa_file_interval_bytes(f));
    sa_page_put_key(&w->to, "unseen");
    sa_page_put(&w->to, "{\"bytes\":");
    sa_page_put_double(&w->to, unseen.bytes);
    sa_page_put(&w->to, ",\"blocks\":");
    sa_page_put_double(&w->to, unseen.blocks);
    sa_page_put(&w->to, "}");
    put_texts(w, "comments", f->comments, f->comment_count);
    if (sa_debuginfod_was_lacking() || *sa_notes()) {
        sa_page_put_key(&w->to, "note");
        sa_page_put_string(&w->to,
                           sa_debuginfod_was_lacking()
                               ? "Some names may come without source lines, since the debuginfod "
                                 "servers did not answer."
                               : sa_notes(),
                           SA_PAGE_TEXT_MAX);
    }
    sa_page_put_key(&w->to, "shown");
    sa_page_put_number(&w->to, metric);
    if (w->events) {
        sa_page_put_key(&w->to, "events");
        sa_page_put(&w->to, "true");
    }
    sa_page_put_key(&w->to, "metrics");
    sa_page_put(&w->to, "[");
    for (uint32_t i = 0; i < f->type_count; i++) {
        sa_page_next(&w->to, i);
        sa_page_put(&w->to, "{\"name\":");
        sa_page_put_string(&w->to, f->types[i].name, SA_PAGE_TEXT_MAX);
        sa_page_put(&w->to, ",\"unit\":");
        sa_page_put_string(&w->to, f->types[i].unit, SA_PAGE_TEXT_MAX);
        sa_page_put(&w->to, ",\"kind\":\"");
        sa_page_put(&w->to, kinds[sa_file_kind(f, i)]);
        sa_page_put(&w->to, "\",\"objects\":");
        sa_page_put_number(
            &w->to, sa_file_objects(f, i) == SA_FILE_NONE ? -1 : (long long)sa_file_objects(f, i));
        sa_page_put(&w->to, "}");
    }
    sa_page_put(&w->to, "]");
}

static void put_frames(struct writer *w)
{
    const struct sa_flame_frames *f = w->frames;

    sa_page_put_key(&w->to, "names");
    sa_page_put(&w->to, "[");
    for (uint32_t i = 0; i < f->name_count; i++) {
        char *plain = sa_demangle(f->names[i]);

        sa_page_next(&w->to, i);
        sa_page_put_string(&w->to, plain ? plain : f->names[i], SA_PAGE_NAME_MAX);
        free(plain);
    }
    sa_page_put(&w->to, "]");
    put_texts(w, "libraries", f->libraries, f->library_count);
    put_texts(w, "files", f->files, f->file_count);
    put_texts(w, "threads", f->threads, f->thread_count);
    sa_page_put_key(&w->to, "frames");
    sa_page_put(&w->to, "[");
    for (uint32_t i = 0; i < f->frame_count; i++) {
        sa_page_next(&w->to, i);
        sa_page_put_number(&w->to, f->frames[i].name);
        sa_page_put(&w->to, ",");
        sa_page_put_number(&w->to, f->frames[i].library);
        sa_page_put(&w->to, ",");
        sa_page_put_number(&w->to, f->frames[i].file);
    }
    sa_page_put(&w->to, "]");
    sa_page_put_key(&w->to, "places");
    sa_page_put(&w->to, "[");
    for (uint32_t i = 0; i < f->place_count; i++) {
        sa_page_next(&w->to, i);
        sa_page_put_number(&w->to, f->places[i].frame);
        sa_page_put(&w->to, ",");
        sa_page_put_number(&w->to, f->places[i].line);
    }
    sa_page_put(&w->to, "]");
}

/* The stacks, and the number of its stack in each row. */
static void put_stacks(struct writer *w)
{
    const struct sa_flame_frames *f = w->frames;
    const struct sa_flame_row *before = NULL;
    struct sa_buffer numbers = {NULL, 0, 0};
    long long stack = -1;

    sa_page_put_key(&w->to, "stacks");
    sa_page_put(&w->to, "[");
    for (uint32_t i = 0; w->to.fine && i < f->row_count; i++) {
        const struct sa_flame_row *row = &f->rows[i];
        const uint32_t *frames = f->stacks + row->stack;
        uint32_t common = 0;

        while (before && common < before->depth && common < row->depth &&
               f->stacks[before->stack + common] == frames[common])
            common++;
        if (!before || common < before->depth || common < row->depth) {
            sa_page_next(&w->to, (size_t)++stack);
            sa_page_put_number(&w->to, common);
            sa_page_put(&w->to, ",");
            sa_page_put_number(&w->to, row->depth - common);
            for (uint32_t k = common; k < row->depth; k++) {
                sa_page_put(&w->to, ",");
                sa_page_put_number(&w->to, frames[k]);
            }
        }
        before = row;
        w->to.fine = w->to.fine && sa_text_add(&numbers, "%s%lld", i ? "," : "", stack);
    }
    sa_page_put(&w->to, "]");
    sa_page_put_key(&w->to, "stack");
    sa_page_put(&w->to, "[");
    w->to.fine = w->to.fine && sa_text_put(w->to.out, numbers.data, numbers.used);
    sa_page_put(&w->to, "]");
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

    w->to.fine = w->to.fine && blocks;
    for (uint32_t i = 0; w->to.fine && i < f->row_count; i++)
        blocks[i] = f->rows[i].blocks;
    if (w->to.fine)
        qsort(blocks, f->row_count, sizeof(*blocks), blocks_order);
    sa_page_put_key(&w->to, "blocks");
    sa_page_put(&w->to, "[");
    for (uint32_t i = 0; w->to.fine && i < f->row_count; i++) {
        if (count && blocks_order(&blocks[count - 1], &blocks[i]) == 0)
            continue;
        sa_page_next(&w->to, count);
        blocks[count++] = blocks[i];
        sa_page_put_number(&w->to, blocks[count - 1].size);
        sa_page_put(&w->to, ",");
        sa_page_put_double(&w->to, blocks[count - 1].p);
    }
    sa_page_put(&w->to, "]");
    sa_page_put_key(&w->to, "block");
    sa_page_put(&w->to, "[");
    for (uint32_t i = 0; w->to.fine && i < f->row_count; i++) {
        struct sa_flame_blocks *at =
            bsearch(&f->rows[i].blocks, blocks, count, sizeof(*blocks), blocks_order);

        sa_page_next(&w->to, i);
        sa_page_put_number(&w->to, at - blocks);
    }
    sa_page_put(&w->to, "]");
    free(blocks);
}

/* The thread of each row, and of a comparison which profile it is of. */
static void put_threads(struct writer *w)
{
    const struct sa_flame_frames *f = w->frames;

    if (w->diff) {
        sa_page_put_key(&w->to, "side");
        sa_page_put(&w->to, "[");
        for (uint32_t i = 0; i < f->row_count; i++) {
            sa_page_next(&w->to, i);
            sa_page_put(&w->to, f->rows[i].sample < w->diff->before->sample_count ? "0" : "1");
        }
        sa_page_put(&w->to, "]");
    }

    sa_page_put_key(&w->to, "thread");
    sa_page_put(&w->to, "[");
    for (uint32_t i = 0; i < f->row_count; i++) {
        sa_page_next(&w->to, i);
        sa_page_put_number(&w->to,
                           f->rows[i].thread == SA_FILE_NONE ? -1 : (long long)f->rows[i].thread);
    }
    sa_page_put(&w->to, "]");
}

/* The lifetimes of the blocks of each row, in nanoseconds, if the file has any: mean, least, most.
 */
static void put_lives(struct writer *w)
{
    static const char *const labels[] = {"avg_lifetime", "min_lifetime", "max_lifetime"};
    const struct sa_profile_file *file = w->file;
    const struct sa_flame_frames *f = w->frames;
    bool any = false;

    for (uint32_t i = 0; !any && i < f->row_count; i++)
        any = sa_file_number(file, &file->samples[f->rows[i].sample], labels[0]) > 0;
    if (!any)
        return;
    sa_page_put_key(&w->to, "lives");
    for (size_t k = 0; k < sizeof(labels) / sizeof(*labels); k++) {
        sa_page_put(&w->to, k ? ",\n[" : "[[");
        for (uint32_t i = 0; i < f->row_count; i++) {
            sa_page_next(&w->to, i);
            sa_page_put_number(&w->to,
                               sa_file_number(file, &file->samples[f->rows[i].sample], labels[k]));
        }
        sa_page_put(&w->to, "]");
    }
    sa_page_put(&w->to, "]");
}

/* The sums that a sample of the file has itself, or NULL. */
static const struct sa_sums *sums_of(const struct writer *w, uint32_t sample)
{
    uint32_t first = w->diff ? w->diff->before->sample_count : UINT32_MAX;
    const struct sa_profile_file *f = !w->diff         ? w->file
                                      : sample < first ? w->diff->before
                                                       : w->diff->after;
    uint32_t at = f->samples[sample < first ? sample : sample - first].sums;

    return at == SA_FILE_NONE ? NULL : &f->sums[at];
}

/* Sums of what was ever allocated: the row and the numbers of each that has any. */
static void put_ever(struct writer *w)
{
    const struct sa_flame_frames *f = w->frames;
    size_t count = 0;

    sa_page_put_key(&w->to, "ever");
    sa_page_put(&w->to, "[");
    for (uint32_t i = 0; i < f->row_count; i++) {
        const struct sa_sums *s = sums_of(w, f->rows[i].sample);

        if (!s)
            continue;
        sa_page_next(&w->to, count++);
        w->to.fine = w->to.fine &&
                     sa_text_add(w->to.out, "[%u,%llu,%llu,%.9g,%.9g,%.9g,%.9g,%.9g,%.9g,%.9g]", i,
                                 (unsigned long long)s->samples, (unsigned long long)s->certain,
                                 s->certain_bytes, s->sampled_bytes, s->count - (double)s->samples,
                                 s->bytes - s->sampled_bytes, s->count_variance, s->bytes_variance,
                                 s->bytes_squares);
    }
    sa_page_put(&w->to, "]");
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

    sa_page_put_key(&w->to, "values");
    sa_page_put(&w->to, "[");
    for (uint32_t m = 0; m < file->type_count; m++) {
        sa_page_put(&w->to, m ? ",\n[" : "[");
        for (uint32_t i = 0; i < f->row_count; i++) {
            sa_page_next(&w->to, i);
            sa_page_put_number(&w->to, file->values[file->samples[f->rows[i].sample].value + m]);
        }
        sa_page_put(&w->to, "]");
    }
    sa_page_put(&w->to, "]");
    sa_page_put_key(&w->to, "samples");
    sa_page_put(&w->to, "[");
    for (uint32_t m = 0; m < file->type_count; m++) {
        enum sa_file_kind kind = sa_file_kind(file, m);
        bool known = kind != SA_FILE_OTHER;

        sa_page_put(&w->to, m ? ",\n[" : "[");
        for (uint32_t i = 0; known && i < f->row_count; i++) {
            sa_page_next(&w->to, i);
            sa_page_put_number(&w->to, samples_of(w, m, f->rows[i].sample));
        }
        sa_page_put(&w->to, "]");
    }
    sa_page_put(&w->to, "]");
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
    for (uint32_t i = 0; w->moments && i < frames.row_count; i++)
        frames.rows[i].blocks.p = w->moments->p[frames.rows[i].sample];
    w->frames = &frames;
    w->to.fine = sa_text_put(w->to.out, sa_page_head, sa_page_head_bytes);
    put_head(w, metric, title);
    if (w->diff)
        put_compared(w, before);
    put_frames(w);
    put_stacks(w);
    put_blocks(w);
    put_threads(w);
    if (!w->diff && !w->moments)
        put_lives(w);
    if (!w->moments)
        put_ever(w);
    if (w->moments)
        sa_flame_put_moments(&w->to, w->moments, &frames);
    else
        put_values(w);
    sa_page_put(&w->to, "}\n");
    w->to.fine = w->to.fine && sa_text_put(w->to.out, sa_page_tail, sa_page_tail_bytes);
    sa_flame_frames_free(&frames);
    if (!w->to.fine)
        sa_error_set(e, SA_EXIT_FAILED, "there is no memory for the page");
    return w->to.fine;
}

bool sa_flame_put(const struct sa_profile_file *file, uint32_t metric, const char *title,
                  struct sa_buffer *out, struct sa_error *e)
{
    struct writer w = {.file = file, .to = {out, true}};

    return put_page(&w, metric, title, NULL, e);
}

bool sa_flame_put_diff(const struct sa_flame_diff *diff, uint32_t metric, const char *before,
                       const char *after, struct sa_buffer *out, struct sa_error *e)
{
    struct writer w = {.file = &diff->both, .diff = diff, .to = {out, true}};

    return put_page(&w, metric, after, before, e);
}

bool sa_flame_put_line(const struct sa_profile_file *rows, const struct sa_moments *moments,
                       bool events, uint32_t metric, const char *title, struct sa_buffer *out,
                       struct sa_error *e)
{
    struct writer w = {.file = rows, .moments = moments, .events = events, .to = {out, true}};

    return put_page(&w, metric, title, NULL, e);
}
