/* SPDX-License-Identifier: Apache-2.0 */
/* Pages of `top`; see top.h. */
#include "tool/top/top.h"

#include "tool/base/note.h"
#include "tool/base/time.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

bool sa_top_read(struct sa_top *top, struct sa_error *e)
{
    if (!top->o.pid)
        return sa_rows_read(&top->rows, e);
    if (top->holders.pid != top->o.pid) {
        sa_holders_free(&top->holders);
        top->holders.pid = top->o.pid;
    }
    return sa_holders_read(&top->holders, e);
}

static void print_list(struct sa_top *top, FILE *to)
{
    sa_rows_sort(&top->rows, top->o.order);
    sa_rows_print_head(to);
    for (size_t i = 0; i < top->rows.count; i++)
        sa_row_print(&top->rows.rows[i], to);
    if (top->rows.refused)
        fprintf(to, "\n%zu processes may not be read\n", top->rows.refused);
    if (top->rows.damaged)
        fprintf(to, "\n%zu processes could not be understood\n", top->rows.damaged);
}

char *sa_top_page(struct sa_top *top, size_t *ret_first)
{
    struct sa_report_options options = {
        .by = top->o.by, .rows = top->o.rows, .width = top->o.width};
    char *text = NULL;
    size_t bytes;
    FILE *to = open_memstream(&text, &bytes);
    bool fine = to != NULL;

    *ret_first = 1;
    if (to && top->o.pid)
        fine = sa_holders_print(&top->holders, &options, top->o.within, to);
    else if (to)
        print_list(top, to);
    if (to && fclose(to) != 0)
        fine = false;
    if (!fine) {
        free(text);
        text = NULL;
    }
    return text;
}

void sa_top_free(struct sa_top *top)
{
    sa_rows_free(&top->rows);
    sa_holders_free(&top->holders);
}

bool sa_top_batch(struct sa_top *top, unsigned count, struct sa_error *e)
{
    for (unsigned i = 0; !count || i < count; i++) {
        size_t first;
        char *page;

        if (i)
            sa_time_wait(top->o.every);
        if (!sa_top_read(top, e))
            return false;
        page = sa_top_page(top, &first);
        if (page)
            printf("%s%s", i ? "\n" : "", page);
        else
            sa_error_set(e, SA_EXIT_FAILED, "there is no memory for a page");
        free(page);
        sa_error_stdout(e);
        sa_notes_print();
        if (e->code)
            return false;
    }
    return true;
}
