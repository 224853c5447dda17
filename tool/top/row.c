/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of processes; see row.h. */
#include "tool/top/row.h"

#include "tool/base/array.h"
#include "tool/base/note.h"
#include "tool/base/text.h"
#include "tool/base/time.h"
#include "tool/reading/sweep.h"
#include "tool/stats/stats_page.h"

#include <stdlib.h>
#include <string.h>

#define MIB           1048576.0
#define OTHER_SECONDS 20

static bool same_process(const struct sa_process *a, const struct sa_process *b)
{
    return a->pid == b->pid && a->started == b->started;
}

static double rate_of(const struct sa_row_values *row, const struct sa_row_values *before,
                      double seconds)
{
    if (before && same_process(&before->process, &row->process) && row->at > before->at)
        return row->allocated < before->allocated
                   ? 0
                   : (double)(row->allocated - before->allocated) / (row->at - before->at);
    return seconds > 0 ? (double)row->allocated / seconds : -1;
}

bool sa_row_read(struct sa_reading *r, const struct sa_row_values *before,
                 struct sa_row_values *ret, struct sa_error *e)
{
    struct sa_stats_numbers numbers;
    const union sa_metric_values *m = &numbers.m;

    memset(ret, 0, sizeof(*ret));
    ret->at = sa_time_seconds();
    if (!sa_stats_read(&r->target, &r->table, &numbers, e))
        return false;
    sa_process_read(r->target.pid, &ret->process);
    ret->salloc = m->physical_bytes;
    ret->in_use = m->allocated_bytes;
    ret->caches = m->cpu_free_bytes + m->thread_free_bytes + m->transfer_free_bytes;
    ret->fragmentation = m->fragmentation_bytes;
    ret->mixed = m->mixed_bytes;
    ret->mixed_used = m->mixed_used_bytes;
    ret->mixed_saved = m->mixed_saved_bytes;
    ret->samples = m->live_samples;
    ret->allocated = m->allocations_bytes;
    ret->rate = rate_of(ret, before, numbers.seconds);
    return true;
}

static int by_pid(const void *a, const void *b)
{
    pid_t x = ((const struct sa_row_values *)a)->process.pid;
    pid_t y = ((const struct sa_row_values *)b)->process.pid;

    return x < y ? -1 : x > y;
}

static int other_by_pid(const void *a, const void *b)
{
    pid_t x = ((const struct sa_row_other *)a)->pid, y = ((const struct sa_row_other *)b)->pid;

    return x < y ? -1 : x > y;
}

/* A process that is known not to run on salloc, of which only the PID and the start are read; NULL:
 * it is none. */
static const struct sa_row_other *find_other(const struct sa_rows *rows, pid_t pid)
{
    struct sa_row_other key = {.pid = pid}, *found = NULL;
    struct sa_process process;

    if (rows->other_count)
        found = bsearch(&key, rows->others, rows->other_count, sizeof(key), other_by_pid);
    if (!found || sa_time_seconds() >= found->until)
        return NULL;
    sa_process_read(pid, &process);
    return found->started == process.started ? found : NULL;
}

/* The next reading: rows and others of this one, which replace those of the one before. */
struct next {
    struct sa_rows rows;
    const struct sa_rows *before; /* sorted by PID */
};

static bool skip_process(pid_t pid, void *arg)
{
    return find_other(((const struct next *)arg)->before, pid) != NULL;
}

static bool make_row(struct sa_reading *r, void *arg, struct sa_buffer *out, struct sa_error *e)
{
    const struct sa_rows *rows = ((const struct next *)arg)->before;
    struct sa_row_values key = {.process = {.pid = r->target.pid}}, row, *before = NULL;

    if (rows->count)
        before = bsearch(&key, rows->rows, rows->count, sizeof(key), by_pid);
    return sa_row_read(r, before, &row, e) && sa_text_put(out, (const char *)&row, sizeof(row));
}

/* Remembers that a process does not run on salloc: until the time that was known before, or for
 * OTHER_SECONDS. */
static bool add_other(struct next *next, pid_t pid)
{
    const struct sa_row_other *known = find_other(next->before, pid);
    struct sa_rows *rows = &next->rows;
    struct sa_process process;

    if (!sa_array_room(&rows->others, &rows->other_cap, rows->other_count + 1,
                       sizeof(*rows->others), 64))
        return false;
    if (known) {
        rows->others[rows->other_count++] = *known;
        return true;
    }
    sa_process_read(pid, &process);
    rows->others[rows->other_count++] =
        (struct sa_row_other){pid, process.started, sa_time_seconds() + OTHER_SECONDS};
    return true;
}

static bool take_row(pid_t pid, enum sa_exit code, const char *data, size_t bytes, void *arg)
{
    struct next *next = arg;
    struct sa_rows *rows = &next->rows;

    if (code == SA_EXIT_NOT_ON_IT)
        return add_other(next, pid);
    if (!code && bytes == sizeof(*rows->rows)) {
        if (!sa_array_room(&rows->rows, &rows->cap, rows->count + 1, bytes, 16))
            return false;
        memcpy(&rows->rows[rows->count++], data, bytes);
    }
    if (code == SA_EXIT_REFUSED) {
        rows->refused++;
        rows->refused_pid = pid;
    }
    if (code == SA_EXIT_VERSION || code == SA_EXIT_DAMAGED || code == SA_EXIT_FAILED) {
        rows->damaged++;
        sa_note("%.*s", (int)bytes, data);
    }
    return true;
}

bool sa_rows_read(struct sa_rows *rows, struct sa_error *e)
{
    struct next next = {.before = rows};
    struct sa_sweep sweep = {
        .skip = skip_process, .make = make_row, .take = take_row, .arg = &next};

    sa_rows_sort(rows, SA_ROWS_BY_PID);
    if (!sa_sweep(&sweep, e)) {
        sa_rows_free(&next.rows);
        return false;
    }
    sa_rows_free(rows);
    *rows = next.rows;
    return true;
}

static int larger(double a, double b)
{
    return a < b ? 1 : a > b ? -1 : 0;
}

#define BY(name, field)                                                                            \
    static int by_##name(const void *a, const void *b)                                             \
    {                                                                                              \
        const struct sa_row_values *x = a, *y = b;                                                 \
        int order = larger((double)x->field, (double)y->field);                                    \
                                                                                                   \
        return order ? order : by_pid(a, b);                                                       \
    }

BY(in_use, in_use)
BY(rate, rate)
BY(caches, caches)
BY(fragmentation, fragmentation)
BY(resident, process.resident)

void sa_rows_sort(struct sa_rows *rows, enum sa_row_order order)
{
    static int (*const orders[])(const void *, const void *) = {
        [SA_ROWS_BY_PID] = by_pid,
        [SA_ROWS_BY_IN_USE] = by_in_use,
        [SA_ROWS_BY_RATE] = by_rate,
        [SA_ROWS_BY_CACHES] = by_caches,
        [SA_ROWS_BY_FRAGMENTATION] = by_fragmentation,
        [SA_ROWS_BY_RESIDENT] = by_resident,
    };

    if (rows->count)
        qsort(rows->rows, rows->count, sizeof(*rows->rows), orders[order]);
}

void sa_rows_print_head(FILE *to)
{
    fprintf(to, "%8s %-16s %10s %10s %10s %10s %10s %6s %9s %8s\n", "PID", "NAME", "RSS MiB",
            "SALLOC MiB", "IN USE MiB", "CACHES MiB", "FRAG MiB", "FRAG%", "MiB/s", "SAMPLES");
}

void sa_row_print(const struct sa_row_values *row, FILE *to)
{
    char rate[32] = "?", share[32] = "?";

    if (row->rate >= 0)
        snprintf(rate, sizeof(rate), "%.1f", row->rate / MIB);
    if (row->process.resident)
        snprintf(share, sizeof(share), "%.1f",
                 100 * (double)row->fragmentation / (double)row->process.resident);
    fprintf(to, "%8d %-16s %10.1f %10.1f %10.1f %10.1f %10.1f %6s %9s %8llu\n", row->process.pid,
            row->process.name, (double)row->process.resident / MIB, (double)row->salloc / MIB,
            (double)row->in_use / MIB, (double)row->caches / MIB, (double)row->fragmentation / MIB,
            share, rate, (unsigned long long)row->samples);
}

void sa_row_print_mixed(const struct sa_row_values *row, FILE *to)
{
    if (row->mixed)
        fprintf(to, "mixed spans: %.1f MiB, of which %.1f MiB are in use; %.1f MiB saved\n",
                (double)row->mixed / MIB, (double)row->mixed_used / MIB,
                (double)row->mixed_saved / MIB);
}

void sa_rows_free(struct sa_rows *rows)
{
    free(rows->rows);
    free(rows->others);
    memset(rows, 0, sizeof(*rows));
}
