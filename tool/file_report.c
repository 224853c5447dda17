/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of a profile file; see file_report.h. */
#include "tool/file_report.h"

#include "tool/demangle.h"
#include "tool/human.h"
#include "tool/report_rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NAME_BYTES       4096 /* of a name that is printed */
#define WIDTH_MIN        80
#define NAME_COLUMNS_MIN 30 /* a name with fewer goes to a line of its own */

static const struct {
    const char *option, *head;
} tables[SA_REPORT_TABLES] = {
    [SA_REPORT_FUNCTION_FLAT] = {"function", "function that called %s"},
    [SA_REPORT_FUNCTION] = {"function", "function, with all that it calls"},
    [SA_REPORT_LINE_FLAT] = {"line", "line that called %s"},
    [SA_REPORT_LINE] = {"line", "line, with all that it calls"},
    [SA_REPORT_LIBRARY] = {"library", "library that called %s"},
    [SA_REPORT_SIZE] = {"size", "size of the blocks"},
    [SA_REPORT_THREAD] = {"thread", "thread"},
    [SA_REPORT_LIFETIME] = {"lifetime", "lifetime"},
    [SA_REPORT_STACK] = {"stack", "stack, the function that called %s first"},
};

struct printer {
    const struct sa_report *r;
    const struct sa_report_options *options;
    FILE *to;
    bool bytes; /* the unit of the metric */
};

unsigned sa_report_by(const char *list)
{
    unsigned by = 0, one;

    for (;;) {
        size_t n = strcspn(list, ",");

        one = 0;
        for (unsigned i = 0; i < SA_REPORT_TABLES; i++)
            if (strlen(tables[i].option) == n && strncmp(tables[i].option, list, n) == 0)
                one |= 1u << i;
        by |= one;
        if (!one || !list[n])
            return one ? by : 0;
        list += n + 1;
    }
}

static void human(const struct printer *p, double value, char ret[SA_HUMAN_BYTES])
{
    if (p->bytes)
        sa_human_bytes(value, ret);
    else
        sa_human_count(value, ret);
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
    columns = (unsigned)fprintf(p->to, "%10s %5.1f%% %10s %10s", value,
                                all != 0 ? 100 * (double)row->sums.value / all : 0.0, low, high);
    if (!p->r->has_lives)
        return columns;
    sa_human_time(row->lives.blocks > 0 ? row->lives.sum_ns / row->lives.blocks : 0, mean);
    sa_human_time((double)row->lives.min_ns, min);
    sa_human_time((double)row->lives.max_ns, max);
    return columns + (unsigned)fprintf(p->to, "  %8s %8s %8s", mean, min, max);
}

static void put_head(const struct printer *p, enum sa_report_table table)
{
    bool freed = strncmp(p->r->file->types[p->r->metric].name, "deallocated", 11) == 0;

    fprintf(p->to, "\n");
    fprintf(p->to, tables[table].head, freed ? "free" : "malloc");
    fprintf(p->to, "\n%10s %6s %10s %10s", p->bytes ? "bytes" : "blocks", "share", "95 %: from",
            "to");
    fprintf(p->to, p->r->has_lives ? " %9s %8s %8s\n" : "\n", "mean life", "min", "max");
}

/* What is left of a line's columns; 0: no limit. */
static unsigned left(const struct printer *p, unsigned used)
{
    unsigned width = p->options->width;

    if (width && width < WIDTH_MIN)
        width = WIDTH_MIN;
    return width ? width - used : 0;
}

static void put_name(const struct printer *p, const char *name, unsigned columns)
{
    char *plain = sa_demangle(name), text[NAME_BYTES];

    sa_human_name(plain ? plain : name, columns, text, sizeof(text));
    fputs(text, p->to);
    free(plain);
}

static void put_path(const struct printer *p, const char *path, unsigned columns)
{
    char text[NAME_BYTES];

    sa_human_path(path, columns, text, sizeof(text));
    fputs(text, p->to);
}

/* A function and its line. A line that does not fit behind its function gets a third at least. */
static void put_frame(const struct printer *p, const char *name, const char *line, unsigned columns)
{
    char *plain = sa_demangle(name), text[NAME_BYTES];
    unsigned path = (unsigned)sa_human_columns(line);

    if (path > columns / 3)
        path = columns / 3;
    sa_human_name(plain ? plain : name, columns && *line ? columns - path - 2 : columns, text,
                  sizeof(text));
    free(plain);
    fputs(text, p->to);
    if (*line) {
        sa_human_path(line, columns ? columns - 2 - (unsigned)sa_human_columns(text) : 0, text,
                      sizeof(text));
        fprintf(p->to, "  %s", text);
    }
    fprintf(p->to, "\n");
}

static void put_stack(const struct printer *p, const struct sa_report_rows *rows,
                      const struct sa_report_row *row)
{
    size_t depth = sa_report_depth(rows, row);
    const char *name, *line;
    unsigned columns = left(p, 4);

    fprintf(p->to, depth ? "\n" : "  [no stack]\n");
    for (size_t i = 0; i < depth; i++) {
        sa_report_frame(rows, row, i, &name, &line);
        fprintf(p->to, "    ");
        put_frame(p, name, line, columns);
    }
}

static void put_row(const struct printer *p, enum sa_report_table table,
                    const struct sa_report_rows *rows, const struct sa_report_row *row)
{
    unsigned columns = left(p, put_numbers(p, row) + 2);
    const char *key;

    if (table == SA_REPORT_STACK) {
        put_stack(p, rows, row);
        return;
    }
    if (columns && columns < NAME_COLUMNS_MIN) {
        fprintf(p->to, "\n    ");
        columns = left(p, 4);
    } else {
        fprintf(p->to, "  ");
    }
    key = sa_report_key(rows, row);
    if (*key == SA_REPORT_LINE_MARK)
        put_path(p, key + 1, columns);
    else if (table <= SA_REPORT_LINE)
        put_name(p, key, columns);
    else
        put_path(p, key, columns);
    fprintf(p->to, "\n");
}

/* Whether a table that nobody has asked for says something. */
static bool says_something(const struct printer *p, enum sa_report_table table,
                           const struct sa_report_rows *rows)
{
    const struct sa_profile_file *f = p->r->file;

    if (table == SA_REPORT_LINE || table == SA_REPORT_LINE_FLAT) {
        for (uint32_t i = 0; i < f->line_count; i++)
            if (f->line_numbers[i])
                return true;
        return false;
    }
    return table == SA_REPORT_STACK || rows->count != 1 ||
           strcmp(sa_report_key(rows, &rows->of[0]), SA_REPORT_NOT_RECORDED) != 0;
}

static bool put_table(const struct printer *p, enum sa_report_table table)
{
    unsigned most = p->options->rows;
    struct sa_report_rows rows;

    if (!sa_report_rows(p->r, table, &rows))
        return false;
    if (p->options->by || says_something(p, table, &rows)) {
        put_head(p, table);
        for (size_t i = 0; i < rows.count && (!most || i < most); i++)
            put_row(p, table, &rows, &rows.of[i]);
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
    int64_t period = p->r->file->period;
    char text[SA_HUMAN_BYTES];

    if (period <= 0) {
        fprintf(p->to, "sampling interval: none, sampling was off\n");
        return;
    }
    sa_human_bytes((double)period, text);
    fprintf(p->to, "sampling interval: %s", text);
    if (i.known && i.high > 0) {
        human(p, i.high, text);
        fprintf(p->to, "; a place without a sample may have up to %s%s (95 %%)", text,
                p->bytes ? "" : " blocks");
    }
    fprintf(p->to, "\n");
}

static void put_total(const struct printer *p)
{
    const struct sa_file_type *type = &p->r->file->types[p->r->metric];
    struct sa_unseen unseen = sa_file_unseen(p->r->file);
    struct sa_file_interval i = interval(p, &p->r->all, &unseen);
    char value[SA_HUMAN_BYTES], low[SA_HUMAN_BYTES], high[SA_HUMAN_BYTES];

    human(p, (double)p->r->all.value, value);
    human(p, i.low, low);
    human(p, i.high, high);
    fprintf(p->to, "%s: %s", type->name, value);
    if (i.known)
        fprintf(p->to, " (95 %% interval %s to %s), from %llu samples", low, high,
                (unsigned long long)i.samples);
    fprintf(p->to, "\nexactly: %lld %s", (long long)p->r->all.value, p->bytes ? "bytes" : "blocks");
    if (i.known && isfinite(i.high))
        fprintf(p->to, " (%.0f to %.0f)", i.low, i.high);
    fprintf(p->to, "\n");
    put_unseen(p, &unseen);
}

bool sa_file_report(const struct sa_profile_file *file, uint32_t metric,
                    const struct sa_report_options *options, FILE *to)
{
    struct sa_report r;
    struct printer p = {.r = &r,
                        .options = options,
                        .to = to,
                        .bytes = strcmp(file->types[metric].unit, "bytes") == 0};
    bool fine = sa_report_open(&r, file, metric);

    if (fine)
        put_total(&p);
    for (enum sa_report_table table = 0; fine && table < SA_REPORT_TABLES; table++)
        if (!options->by || options->by >> table & 1)
            fine = put_table(&p, table);
    sa_report_close(&r);
    return fine;
}
