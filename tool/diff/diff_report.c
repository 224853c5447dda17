/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints a comparison; see diff_report.h. In each table the rows whose change chance does not
 * explain come first.
 */
#include "tool/diff/diff_report.h"

#include "tool/diff/diff_rows.h"
#include "tool/file/file_unit.h"
#include "tool/report/report_keys.h"

#include <math.h>
#include <string.h>

#define MORE   "\033[31m" /* of a terminal: red */
#define LESS   "\033[32m" /* green */
#define CHANCE "\033[2m"  /* faint */
#define PLAIN  "\033[0m"

#define CHANGE_BYTES (SA_HUMAN_BYTES + 1)

struct printer {
    const struct sa_diff *d;
    const struct sa_report_options *options;
    const struct sa_file_type *type; /* the metric */
    bool color;
    FILE *to;
};

static void human(const struct printer *p, double value, char ret[SA_HUMAN_BYTES])
{
    sa_file_human(p->type, value, ret);
}

/* A number with its sign. */
static void change_text(const struct printer *p, double value, char ret[CHANGE_BYTES])
{
    *ret = value < 0 ? '-' : value > 0 ? '+' : ' ';
    human(p, fabs(value), ret + 1);
    if (*ret == ' ')
        memmove(ret, ret + 1, strlen(ret));
}

/* Samples of one of the profiles only; of certain blocks only those that the other has not. */
static unsigned long long samples_of(const struct sa_sums *of, const struct sa_sums *other)
{
    return of->samples + (of->certain > other->certain ? of->certain - other->certain : 0);
}

/* The numbers that a row begins with. Returns their columns. */
static unsigned put_numbers(const struct printer *p, const struct sa_diff_row *row)
{
    char before[SA_HUMAN_BYTES], after[SA_HUMAN_BYTES], change[CHANGE_BYTES];
    char low[CHANGE_BYTES] = "-", high[CHANGE_BYTES] = "-";
    const struct sa_change *c = &row->change;
    double from, to;
    unsigned columns;

    human(p, (double)row->value_before, before);
    human(p, (double)row->value_after, after);
    change_text(p, sa_diff_value(row), change);
    if (row->known) {
        sa_change_interval(c, SA_DIFF_ERROR, &from, &to);
        change_text(p, from, low);
        change_text(p, to, high);
    }
    columns =
        (unsigned)fprintf(p->to, "%10s %10s %11s %11s %11s", before, after, change, low, high);
    if (p->d->kind != SA_DIFF_IN_USE || !row->known)
        return columns + (unsigned)fprintf(p->to, " %5s %5s", "-", "-");
    return columns + (unsigned)fprintf(p->to, " %5llu %5llu", samples_of(&c->gone, &c->come),
                                       samples_of(&c->come, &c->gone));
}

static void put_row(const struct printer *p, const struct sa_diff_table *t,
                    const struct sa_diff_row *row)
{
    const char *mark = row->significant ? sa_diff_value(row) > 0 ? MORE : LESS
                       : row->chance    ? CHANCE
                                        : PLAIN;
    bool color = p->color && p->d->kind != SA_DIFF_SINCE && row->known;
    unsigned columns;

    fputs(color ? mark : "", p->to);
    columns = put_numbers(p, row);
    sa_report_put_key(t->table, row->after ? &t->after : &t->before,
                      row->after ? row->after : row->before, columns, p->options->width, p->to);
    fputs(color ? PLAIN : "", p->to);
}

static void put_table(const struct printer *p, const struct sa_diff_table *t)
{
    bool parts = p->d->kind == SA_DIFF_IN_USE || p->d->kind == SA_DIFF_ALLOCATED;
    size_t shown = p->options->rows && p->options->rows < t->count ? p->options->rows : t->count;

    sa_report_put_title(t->table, p->type, p->to);
    fprintf(p->to, "%10s %10s %11s %11s %11s %5s %5s\n", "before", "after", "change", "95 %: from",
            "to", "gone", "new");
    for (size_t i = 0; i < shown; i++) {
        if (parts && i == t->count - t->chance)
            fprintf(p->to, "  within chance:\n");
        put_row(p, t, &t->rows[i]);
    }
    if (shown == t->count)
        return;
    fprintf(p->to, "%10s %zu more", "", t->count - shown);
    if (parts && t->count - t->chance > shown)
        fprintf(p->to, ", %zu of them not within chance", t->count - t->chance - shown);
    fprintf(p->to, "\n");
}

static void put_samples(const struct printer *p)
{
    const struct sa_diff *d = p->d;
    const struct sa_change *c = &d->total.change;
    char text[SA_HUMAN_BYTES];

    if (d->kind != SA_DIFF_SINCE && !d->total.known)
        fprintf(p->to,
                "the samples behind these numbers are not known: a change without an interval may\n"
                "    be chance\n");
    else if (d->kind == SA_DIFF_IN_USE && d->common.known)
        fprintf(p->to, "samples: %llu in both, %llu gone, %llu new\n",
                (unsigned long long)d->common.samples, samples_of(&c->gone, &c->come),
                samples_of(&c->come, &c->gone));
    else if (d->kind == SA_DIFF_IN_USE)
        fprintf(p->to,
                "samples: %llu before, %llu after; which of them are the same is not known,\n"
                "    so the intervals are wide\n",
                samples_of(&c->gone, &c->come), samples_of(&c->come, &c->gone));
    else if (d->kind == SA_DIFF_SINCE)
        fprintf(p->to, "the change is what the process has allocated in between\n");
    if (d->unseen.bytes > 0 && isfinite(d->unseen.bytes)) {
        sa_human_bytes(d->unseen.bytes, text);
        fprintf(p->to, "sampling interval: %s\n", text);
    }
}

static void put_total(const struct printer *p)
{
    const struct sa_diff_row *row = &p->d->total;
    char before[SA_HUMAN_BYTES], after[SA_HUMAN_BYTES], change[CHANGE_BYTES];
    char low[CHANGE_BYTES], high[CHANGE_BYTES];
    double from = 0, to = 0;

    if (row->known)
        sa_change_interval(&row->change, SA_DIFF_ERROR, &from, &to);
    human(p, (double)row->value_before, before);
    human(p, (double)row->value_after, after);
    change_text(p, sa_diff_value(row), change);
    change_text(p, from, low);
    change_text(p, to, high);
    fprintf(p->to, "%s: %s before, %s after\nchange: %s", p->type->name, before, after, change);
    if (row->known)
        fprintf(p->to, " (95 %% interval %s to %s)", low, high);
    else
        fprintf(p->to, " (95 %% interval not known)");
    fprintf(p->to, "\nexactly: %+.0f %s", sa_diff_value(row), sa_file_word(p->type));
    if (row->known && isfinite(from) && isfinite(to))
        fprintf(p->to, " (%+.0f to %+.0f)", from, to);
    fprintf(p->to, ", from %lld to %lld\n", (long long)row->value_before,
            (long long)row->value_after);
    put_samples(p);
}

bool sa_diff_report(const struct sa_profile_file *before, const struct sa_profile_file *after,
                    uint32_t metric_before, uint32_t metric_after,
                    const struct sa_report_options *options, bool color, FILE *to)
{
    struct sa_diff d;
    struct printer p = {.d = &d,
                        .options = options,
                        .color = color,
                        .type = &before->types[metric_before],
                        .to = to};

    if (!sa_diff_open(&d, before, after, metric_before, metric_after, options->by))
        return false;
    put_total(&p);
    for (size_t i = 0; i < d.table_count; i++)
        put_table(&p, &d.tables[i]);
    sa_diff_close(&d);
    return true;
}
