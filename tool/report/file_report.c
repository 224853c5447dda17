/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of a profile file; see file_report.h. */
#include "tool/report/file_report.h"

#include "tool/file/file_unit.h"
#include "tool/report/report_keys.h"

#include <math.h>

struct printer {
    const struct sa_report *r;
    const struct sa_report_options *options;
    FILE *to;
    const struct sa_file_type *type; /* the metric */
};

static void human(const struct printer *p, double value, char ret[SA_HUMAN_BYTES])
{
    sa_file_human(p->type, value, ret);
}

static struct sa_file_interval interval(const struct printer *p, const struct sa_file_sums *sums,
                                        const struct sa_unseen *unseen)
{
    return sa_file_interval_of(p->r->file, p->r->metric, sums, unseen);
}

/* The numbers that a row begins with. Returns their columns. */
static unsigned put_numbers(const struct printer *p, const struct sa_report_row *row)
{
    struct sa_file_interval i = interval(p, &row->sums, NULL);
    char value[SA_HUMAN_BYTES], low[SA_HUMAN_BYTES] = "-", high[SA_HUMAN_BYTES] = "-";
    char mean[SA_HUMAN_BYTES], min[SA_HUMAN_BYTES], max[SA_HUMAN_BYTES];
    double all = (double)p->r->all.value;
    unsigned columns;

    human(p, (double)row->sums.value, value);
    if (i.known) {
        human(p, i.low, low);
        human(p, i.high, high);
    }
    columns = (unsigned)fprintf(
        p->to, "%10s %5.1f%% %10s %10s", value,
        all != 0 && row->sums.value ? 100 * (double)row->sums.value / all : 0.0, low, high);
    if (!p->r->has_lives)
        return columns;
    sa_human_time(row->lives.blocks > 0 ? row->lives.sum_ns / row->lives.blocks : 0, mean);
    sa_human_time((double)row->lives.min_ns, min);
    sa_human_time((double)row->lives.max_ns, max);
    return columns + (unsigned)fprintf(p->to, "  %8s %8s %8s", mean, min, max);
}

static void put_head(const struct printer *p, enum sa_report_table table)
{
    sa_report_put_title(table, p->type, p->to);
    fprintf(p->to, "%10s %6s %10s %10s", sa_file_word(p->type), "share", "95 %: from", "to");
    fprintf(p->to, p->r->has_lives ? " %9s %8s %8s\n" : "\n", "mean life", "min", "max");
}

static bool put_table(const struct printer *p, enum sa_report_table table)
{
    unsigned most = p->options->rows;
    struct sa_report_rows rows;

    if (!sa_report_rows(p->r, table, &rows))
        return false;
    if (p->options->by || sa_report_says_something(p->r->file, table, &rows)) {
        put_head(p, table);
        for (size_t i = 0; i < rows.count && (!most || i < most); i++)
            sa_report_put_key(table, &rows, &rows.of[i], put_numbers(p, &rows.of[i]),
                              p->options->width, p->to);
        if (most && rows.count > most)
            fprintf(p->to, "%10s %zu more\n", "", rows.count - most);
    }
    sa_report_rows_free(&rows);
    return true;
}

/* What a place that no sample tells of may hold. */
static void put_unseen(const struct printer *p, const struct sa_unseen *unseen)
{
    const struct sa_file_sums nothing = {0};
    struct sa_file_interval i = interval(p, &nothing, unseen);
    const struct sa_profile_file *file = p->r->file;
    const struct sa_file_type *of = &file->period_type;
    char text[SA_HUMAN_BYTES];

    if (file->period <= 0) {
        fprintf(p->to, "sampling interval: %s\n",
                sa_file_pid(file) >= 0 ? "none, sampling was off" : "not known");
        return;
    }
    sa_file_human(of, (double)file->period, text);
    fprintf(p->to, "sampling interval: %s%s%s", text, *of->unit && !sa_file_has_unit(of) ? " " : "",
            *of->unit && !sa_file_has_unit(of) ? sa_file_word(of) : "");
    if (i.known && i.high > 0 && !file->difference) {
        human(p, i.high, text);
        fprintf(p->to, "\na place without a sample may have up to %s%s%s (95 %%)", text,
                sa_file_has_unit(p->type) ? "" : " ",
                sa_file_has_unit(p->type) ? "" : sa_file_word(p->type));
    }
    fprintf(p->to, "\n");
}

static void put_total(const struct printer *p)
{
    struct sa_unseen unseen = sa_file_unseen(p->r->file);
    struct sa_file_interval i = interval(p, &p->r->all, &unseen);
    char value[SA_HUMAN_BYTES], low[SA_HUMAN_BYTES], high[SA_HUMAN_BYTES];

    human(p, (double)p->r->all.value, value);
    human(p, i.low, low);
    human(p, i.high, high);
    fprintf(p->to, "%s: %s", p->type->name, value);
    if (i.known)
        fprintf(p->to, " (95 %% interval %s to %s), from %llu samples", low, high,
                (unsigned long long)i.samples);
    fprintf(p->to, "\nexactly: %lld %s", (long long)p->r->all.value, sa_file_word(p->type));
    if (i.known && isfinite(i.high))
        fprintf(p->to, " (%.0f to %.0f)", i.low, i.high);
    fprintf(p->to, "\n");
    put_unseen(p, &unseen);
}

bool sa_file_report(const struct sa_profile_file *file, uint32_t metric,
                    const struct sa_report_options *options, FILE *to)
{
    struct sa_report r;
    struct printer p = {.r = &r, .options = options, .to = to, .type = &file->types[metric]};
    bool fine = sa_report_open(&r, file, metric);

    if (fine)
        put_total(&p);
    for (enum sa_report_table table = 0; fine && table < SA_REPORT_TABLES; table++)
        if (!options->by || options->by >> table & 1)
            fine = put_table(&p, table);
    sa_report_close(&r);
    return fine;
}
