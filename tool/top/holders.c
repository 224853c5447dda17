/* SPDX-License-Identifier: Apache-2.0 */
/* Holders of memory; see holders.h. The tables are those of `report` and `diff`. */
#include "tool/top/holders.h"

#include "tool/diff/diff_report.h"
#include "tool/reading/input.h"

#include <string.h>

#define METRIC "inuse_space"

bool sa_holders_read(struct sa_holders *h, struct sa_error *e)
{
    struct sa_row_values row;
    struct sa_profile_file file;
    struct sa_reading r;
    bool fine;

    if (!sa_reading_open(&r, (struct sa_source){.pid = h->pid}, e))
        return false;
    fine =
        sa_row_read(&r, h->count ? &h->row : NULL, &row, e) && sa_input_read_target(&file, &r, e);
    sa_reading_close(&r);
    if (!fine)
        return false;
    if (h->count == SA_HOLDERS_PAST) {
        sa_profile_file_free(&h->past[0].file);
        memmove(&h->past[0], &h->past[1], (SA_HOLDERS_PAST - 1) * sizeof(h->past[0]));
        h->count--;
    }
    h->row = row;
    h->past[h->count++] = (struct sa_holders_reading){row.at, file};
    return true;
}

/* The latest reading that is old enough, or the oldest. */
static const struct sa_holders_reading *earlier(const struct sa_holders *h, double seconds)
{
    const struct sa_holders_reading *last = &h->past[h->count - 1], *found = &h->past[0];

    for (size_t i = 0; i + 1 < h->count; i++)
        if (last->at - h->past[i].at >= seconds)
            found = &h->past[i];
    return found;
}

bool sa_holders_print(const struct sa_holders *h, const struct sa_report_options *options,
                      double seconds, FILE *to)
{
    const struct sa_holders_reading *last, *before;
    uint32_t metric;

    if (!h->count)
        return true;
    last = &h->past[h->count - 1];
    before = earlier(h, seconds);
    metric = sa_file_metric(&last->file, METRIC);
    sa_rows_print_head(to);
    sa_row_print(&h->row, to);
    sa_row_print_mixed(&h->row, to);
    fprintf(to, "\n");
    if (metric == SA_FILE_NONE || !sa_file_report(&last->file, metric, options, to))
        return false;
    if (before == last) {
        fprintf(to, "\nWho grew is shown from the second reading on.\n");
        return true;
    }
    fprintf(to, "\nwithin the last %.1f seconds\n", last->at - before->at);
    return sa_diff_report(&before->file, &last->file, sa_file_metric(&before->file, METRIC), metric,
                          options, false, to);
}

void sa_holders_free(struct sa_holders *h)
{
    for (size_t i = 0; i < h->count; i++)
        sa_profile_file_free(&h->past[i].file);
    memset(h, 0, sizeof(*h));
}
