/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares two profiles; see diff_rows.h. Rows of both have the values of all samples, and the sums
 * of those samples that are in one profile only: the groups of the reports are reduced to these.
 */
#include "tool/diff/diff_rows.h"

#include "tool/report/report_keys.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SINCE_MIN 1e-4 /* of the samples of a total, so that their sums are off by 0.1 % */

double sa_diff_value(const struct sa_diff_row *row)
{
    return (double)row->value_after - (double)row->value_before;
}

/* --- what kind of change --- */

static enum sa_diff_kind kind_of(const struct sa_diff *d)
{
    const struct sa_profile_file *before = d->before.file, *after = d->after.file;

    if (sa_file_is_sampled(before, d->before.metric))
        return SA_DIFF_IN_USE;
    if (d->before.kind != SA_FILE_EVER)
        return SA_DIFF_PLAIN;
    return d->common.samples && sa_file_pid(before) == sa_file_pid(after) ? SA_DIFF_SINCE
                                                                          : SA_DIFF_ALLOCATED;
}

/* Leaves the samples that the other profile does not have. */
static void reduce(struct sa_report *r, const uint64_t *common)
{
    for (uint32_t i = 0; i < r->file->sample_count; i++)
        r->groups[i].samples -= common[i] < r->groups[i].samples ? common[i] : r->groups[i].samples;
}

/* --- rows --- */

/*
 * What a process has allocated between two moments: the difference of its sums. A file has these
 * with an error of 2^-24. False: they do not grow, or less than what that error allows.
 */
static bool set_since(struct sa_change *c, const struct sa_sums *before,
                      const struct sa_sums *after)
{
    uint64_t samples = after->samples - before->samples;
    const struct sa_sums more = {.samples = samples,
                                 .certain = after->certain - before->certain,
                                 .certain_bytes = after->certain_bytes - before->certain_bytes,
                                 .count = after->count - before->count,
                                 .bytes = after->bytes - before->bytes,
                                 .sampled_bytes = after->sampled_bytes - before->sampled_bytes,
                                 .count_variance = after->count_variance - before->count_variance,
                                 .bytes_variance = after->bytes_variance - before->bytes_variance,
                                 .bytes_squares = after->bytes_squares - before->bytes_squares};

    c->none_gone = true;
    c->come.certain = more.certain;
    c->come.certain_bytes = more.certain_bytes;
    if (after->samples < before->samples || after->certain < before->certain)
        return false;
    if (!samples)
        return true;
    c->come = more;
    return (double)samples >= SINCE_MIN * (double)after->samples && more.sampled_bytes > 0 &&
           more.bytes > more.sampled_bytes && more.count > (double)samples &&
           more.bytes_squares > 0 && more.bytes_squares < more.bytes_variance &&
           more.count - (double)samples < more.count_variance;
}

/* How many blocks a sample stands for, each weighted by that; 0: there is none. */
static double mean_weight(const struct sa_sums *a, const struct sa_sums *b)
{
    double missed = a->count + b->count - (double)(a->samples + b->samples);

    return missed > 0 ? (a->count_variance + b->count_variance) / missed : 0;
}

/* What a block may stand for in a row where one set has no samples. Its blocks are like those of
 * the other, else like those of the heap. */
static double weight_of(const struct sa_diff *d, const struct sa_change *c)
{
    double weight = mean_weight(&c->gone, &c->come);

    if (!c->blocks)
        return d->unseen.bytes;
    return weight > 0 ? weight : d->weight;
}

static void set_change(const struct sa_diff *d, struct sa_diff_row *row,
                       const struct sa_file_sums *before, const struct sa_file_sums *after)
{
    row->value_before = before->value;
    row->value_after = after->value;
    row->change.blocks = strcmp(d->before.file->types[d->before.metric].unit, "count") == 0;
    row->known = d->kind != SA_DIFF_PLAIN && !before->unknown && !after->unknown;
    if (row->known && d->kind == SA_DIFF_SINCE) {
        row->known = set_since(&row->change, &before->sums, &after->sums);
    } else {
        row->change.gone = before->sums;
        row->change.come = after->sums;
    }
    if (!row->known)
        return;
    row->change.weight = weight_of(d, &row->change);
}

/* The text of a row's key. False: there is no memory. */
static bool key_of(const struct sa_diff_table *t, const struct sa_report_rows *rows,
                   const struct sa_report_row *row, struct sa_intern *keys, uint32_t *ret)
{
    size_t depth = sa_report_depth(rows, row), bytes = 0, at = 0;
    const char *name, *line, *key = NULL;
    char *text = NULL;

    if (t->table != SA_REPORT_STACK) {
        key = sa_report_key(rows, row);
        *ret = sa_intern(keys, key, strlen(key) + 1);
        return *ret != SA_INTERN_NONE;
    }
    for (size_t i = 0; i < depth; i++) {
        sa_report_frame(rows, row, i, &name, &line);
        bytes += strlen(name) + strlen(line) + 2;
    }
    text = malloc(bytes + 1);
    for (size_t i = 0; text && i < depth; i++) {
        sa_report_frame(rows, row, i, &name, &line);
        at += (size_t)sprintf(text + at, "%s\n%s\n", name, line);
    }
    *ret = text ? sa_intern(keys, text, at) : SA_INTERN_NONE;
    free(text);
    return *ret != SA_INTERN_NONE;
}

/* Puts the rows of one profile beside those of the other. False: there is no memory. */
static bool join(struct sa_diff_table *t, bool after, struct sa_intern *keys)
{
    const struct sa_report_rows *rows = after ? &t->after : &t->before;
    uint32_t key;

    for (size_t i = 0; i < rows->count; i++) {
        if (!key_of(t, rows, &rows->of[i], keys, &key))
            return false;
        if (after)
            t->rows[key].after = &rows->of[i];
        else
            t->rows[key].before = &rows->of[i];
    }
    t->count = keys->count;
    return true;
}

static void free_table(struct sa_diff_table *t)
{
    sa_report_rows_free(&t->before);
    sa_report_rows_free(&t->after);
    free(t->rows);
    memset(t, 0, sizeof(*t));
}

static bool make_table(const struct sa_diff *d, struct sa_diff_table *t)
{
    static const struct sa_file_sums none;
    struct sa_intern keys = {0};
    bool fine;

    if (!sa_report_rows(&d->before, t->table, &t->before) ||
        !sa_report_rows(&d->after, t->table, &t->after)) {
        free_table(t);
        return false;
    }
    t->rows = calloc(t->before.count + t->after.count + 1, sizeof(*t->rows));
    fine = t->rows && join(t, false, &keys) && join(t, true, &keys);
    for (size_t i = 0; fine && i < t->count; i++) {
        struct sa_diff_row *row = &t->rows[i];

        row->number = i;
        set_change(d, row, row->before ? &row->before->sums : &none,
                   row->after ? &row->after->sums : &none);
    }
    sa_intern_free(&keys);
    if (!fine)
        free_table(t);
    return fine;
}

/* --- what chance explains --- */

static int row_order(const void *a, const void *b)
{
    const struct sa_diff_row *x = a, *y = b;
    double p = fabs(sa_diff_value(x)), q = fabs(sa_diff_value(y));
    double s = (double)x->value_before + (double)x->value_after;
    double t = (double)y->value_before + (double)y->value_after;

    if (x->chance != y->chance)
        return x->chance ? 1 : -1;
    if (p != q)
        return p > q ? -1 : 1;
    if (s != t)
        return s > t ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}

static int error_order(const void *a, const void *b)
{
    const double *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

/*
 * Sets the error of each row's interval with which all rows together have SA_DIFF_ERROR: K rows can
 * tell a change at the error SA_DIFF_ERROR / K, and no others (doc/sampling_proofs.md,
 * "Differences"). K depends on how many samples a row has, and not on how they fall. False: there
 * is no memory.
 */
static bool share_error(const struct sa_diff *d, double *ret)
{
    size_t rows = 0, count = 0, share = 1;
    double *errors;

    for (size_t i = 0; i < d->table_count; i++)
        rows += d->tables[i].count;
    errors = calloc(rows + 1, sizeof(*errors));
    if (!errors)
        return false;
    for (size_t i = 0; i < d->table_count; i++)
        for (size_t k = 0; k < d->tables[i].count; k++)
            if (d->tables[i].rows[k].known)
                errors[count++] = sa_change_least_error(&d->tables[i].rows[k].change);
    qsort(errors, count, sizeof(*errors), error_order);
    for (;; share++) {
        while (count && errors[count - 1] > SA_DIFF_ERROR / (double)share)
            count--;
        if (count <= share)
            break;
    }
    *ret = SA_DIFF_ERROR / (double)share;
    free(errors);
    return true;
}

/* Whether chance does not explain the change of a row. */
static bool is_significant(const struct sa_diff_row *row, double error)
{
    double low, high;

    if (!row->known || sa_change_least_error(&row->change) > error ||
        sa_change_is_small(&row->change))
        return false;
    sa_change_interval(&row->change, error, &low, &high);
    return low > 0 || high < 0;
}

static void sort_rows(struct sa_diff *d, double error)
{
    for (size_t i = 0; i < d->table_count; i++) {
        struct sa_diff_table *t = &d->tables[i];

        for (size_t k = 0; d->kind != SA_DIFF_SINCE && k < t->count; k++) {
            t->rows[k].significant = is_significant(&t->rows[k], error);
            t->significant += t->rows[k].significant;
            t->rows[k].chance = t->rows[k].known && !t->rows[k].significant;
            t->chance += t->rows[k].chance;
        }
        if (t->count)
            qsort(t->rows, t->count, sizeof(*t->rows), row_order);
    }
}

/* --- all of it --- */

/* The sums of all samples that the other profile does not have. */
static struct sa_file_sums all_of(const struct sa_diff *d, const struct sa_report *r)
{
    struct sa_file_sums ret = {.value = r->all.value, .unknown = r->all.unknown};

    if (d->kind != SA_DIFF_IN_USE)
        return r->all;
    for (uint32_t i = 0; i < r->file->sample_count; i++)
        if (r->groups[i].p > 0)
            sa_sums_add(&ret.sums, &r->groups[i]);
    return ret;
}

static void set_total(struct sa_diff *d)
{
    struct sa_file_sums before = all_of(d, &d->before), after = all_of(d, &d->after);

    d->total.change.total = &d->unseen;
    set_change(d, &d->total, &before, &after);
}

static bool says_something(const struct sa_diff *d, const struct sa_diff_table *t)
{
    return (t->before.count && sa_report_says_something(d->before.file, t->table, &t->before)) ||
           (t->after.count && sa_report_says_something(d->after.file, t->table, &t->after));
}

static bool make_tables(struct sa_diff *d, unsigned by)
{
    for (enum sa_report_table table = 0; table < SA_REPORT_TABLES; table++) {
        struct sa_diff_table *t = &d->tables[d->table_count];

        if (by && !(by >> table & 1))
            continue;
        t->table = table;
        if (!make_table(d, t))
            return false;
        if (by || says_something(d, t))
            d->table_count++;
        else
            free_table(t);
    }
    if (!share_error(d, &d->error))
        return false;
    sort_rows(d, d->error);
    return true;
}

bool sa_diff_open(struct sa_diff *d, const struct sa_profile_file *before,
                  const struct sa_profile_file *after, uint32_t metric_before,
                  uint32_t metric_after, unsigned by)
{
    struct sa_unseen u = sa_file_unseen(before), v = sa_file_unseen(after);
    bool fine;

    memset(d, 0, sizeof(*d));
    d->unseen.bytes = u.bytes > v.bytes ? u.bytes : v.bytes;
    d->unseen.blocks = u.blocks > v.blocks ? u.blocks : v.blocks;
    fine = sa_report_open(&d->before, before, metric_before) &&
           sa_report_open(&d->after, after, metric_after) &&
           sa_diff_common(before, after, &d->common);
    if (fine) {
        d->kind = kind_of(d);
        if (d->kind == SA_DIFF_IN_USE) {
            reduce(&d->before, d->common.before);
            reduce(&d->after, d->common.after);
        }
        d->weight = mean_weight(&d->before.all.sums, &d->after.all.sums);
        set_total(d);
        fine = make_tables(d, by);
    }
    if (!fine)
        sa_diff_close(d);
    return fine;
}

void sa_diff_close(struct sa_diff *d)
{
    for (size_t i = 0; i < d->table_count; i++)
        free_table(&d->tables[i]);
    sa_diff_common_free(&d->common);
    sa_report_close(&d->before);
    sa_report_close(&d->after);
    memset(d, 0, sizeof(*d));
}
