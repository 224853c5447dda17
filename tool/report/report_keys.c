/* SPDX-License-Identifier: Apache-2.0 */
/* Keys of rows as text; see report_keys.h. */
#include "tool/report/report_keys.h"

#include "tool/base/human.h"
#include "tool/file/file_unit.h"
#include "tool/symbol/demangle.h"

#include <stdlib.h>
#include <string.h>

#define NAME_BYTES       4096 /* of a name that is printed */
#define WIDTH_MIN        80
#define NAME_COLUMNS_MIN 30 /* a name with fewer goes to a line of its own */

/* Titles: of memory, for which malloc or free was called, and of anything else. */
static const struct {
    const char *option, *memory, *other;
} tables[SA_REPORT_TABLES] = {
    [SA_REPORT_FUNCTION_FLAT] = {"function", "function that called %s", "function, by itself"},
    [SA_REPORT_FUNCTION] = {"function", "function, with all that it calls", NULL},
    [SA_REPORT_LINE_FLAT] = {"line", "line that called %s", "line, by itself"},
    [SA_REPORT_LINE] = {"line", "line, with all that it calls", NULL},
    [SA_REPORT_LIBRARY] = {"library", "library that called %s", "library, by itself"},
    [SA_REPORT_SIZE] = {"size", "size of the blocks", NULL},
    [SA_REPORT_THREAD] = {"thread", "thread", NULL},
    [SA_REPORT_LIFETIME] = {"lifetime", "lifetime", NULL},
    [SA_REPORT_STACK] = {"stack", "stack, the function that called %s first",
                         "stack, the innermost function first"},
};

/* Where names go. */
struct printer {
    unsigned width;
    FILE *to;
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

void sa_report_put_title(enum sa_report_table table, const struct sa_file_type *metric, FILE *to)
{
    bool freed = strncmp(metric->name, "deallocated", 11) == 0;

    fprintf(to, "\n");
    if (tables[table].other && !sa_file_is_memory(metric))
        fputs(tables[table].other, to);
    else
        fprintf(to, tables[table].memory, freed ? "free" : "malloc");
    fprintf(to, "\n");
}

/* What is left of a line's columns; 0: no limit. */
static unsigned left(const struct printer *p, unsigned used)
{
    unsigned width = p->width;

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

void sa_report_put_key(enum sa_report_table table, const struct sa_report_rows *rows,
                       const struct sa_report_row *row, unsigned used, unsigned width, FILE *to)
{
    const struct printer p = {width, to};
    unsigned columns = left(&p, used + 2);
    const char *key;

    if (table == SA_REPORT_STACK) {
        put_stack(&p, rows, row);
        return;
    }
    if (columns && columns < NAME_COLUMNS_MIN) {
        fprintf(to, "\n    ");
        columns = left(&p, 4);
    } else {
        fprintf(to, "  ");
    }
    key = sa_report_key(rows, row);
    if (*key == SA_REPORT_LINE_MARK)
        put_path(&p, key + 1, columns);
    else if (table <= SA_REPORT_LINE)
        put_name(&p, key, columns);
    else
        put_path(&p, key, columns);
    fprintf(to, "\n");
}

bool sa_report_says_something(const struct sa_profile_file *file, enum sa_report_table table,
                              const struct sa_report_rows *rows)
{
    if (table == SA_REPORT_LINE || table == SA_REPORT_LINE_FLAT) {
        for (uint32_t i = 0; i < file->line_count; i++)
            if (file->line_numbers[i])
                return true;
        return false;
    }
    return table == SA_REPORT_STACK || rows->count != 1 ||
           strcmp(sa_report_key(rows, &rows->of[0]), SA_REPORT_NOT_RECORDED) != 0;
}
