/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of processes; see row.h. */
#include "tool/top/row.h"

#include "tool/base/array.h"
#include "tool/reading/reading.h"
#include "tool/stats/stats_page.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MIB           1048576.0
#define OTHER_SECONDS 20

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

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

bool sa_row_read(pid_t pid, const struct sa_row_values *before, struct sa_row_values *ret,
                 struct sa_error *e)
{
    struct sa_stats_numbers numbers;
    const union sa_metric_values *m = &numbers.m;
    struct sa_reading r;
    char number[16];

    memset(ret, 0, sizeof(*ret));
    snprintf(number, sizeof(number), "%d", pid);
    if (!sa_reading_open_numbers(&r, number, e))
        return false;
    ret->at = now();
    if (sa_stats_read(&r.target, &r.table, &numbers, e)) {
        sa_process_read(pid, &ret->process);
        ret->salloc = m->physical_bytes;
        ret->in_use = m->allocated_bytes;
        ret->caches = m->cpu_free_bytes + m->thread_free_bytes + m->transfer_free_bytes;
        ret->fragmentation = m->fragmentation_bytes;
        ret->samples = m->live_samples;
        ret->allocated = m->allocations_bytes;
        ret->rate = rate_of(ret, before, numbers.seconds);
    }
    sa_reading_close(&r);
    return !e->code;
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

/* Whether a process is known not to run on salloc, of which only the PID and the start are read. */
static bool is_other(const struct sa_rows *rows, const struct sa_process *process, double at)
{
    struct sa_row_other key = {.pid = process->pid}, *found = NULL;

    if (rows->other_count)
        found = bsearch(&key, rows->others, rows->other_count, sizeof(key), other_by_pid);
    return found && found->started == process->started && at < found->until;
}

/* The next reading: rows and others of this one, which replace those of the one before. */
struct next {
    struct sa_rows rows;
    struct sa_rows *before;
    bool complain;
};

static void add_other(struct next *next, const struct sa_process *process, double until)
{
    struct sa_rows *rows = &next->rows;

    if (sa_array_room(&rows->others, &rows->other_cap, rows->other_count + 1, sizeof(*rows->others),
                      64))
        rows->others[rows->other_count++] =
            (struct sa_row_other){process->pid, process->started, until};
}

static void read_process(struct next *next, pid_t pid)
{
    struct sa_row_values key = {.process = {.pid = pid}}, row, *before = NULL;
    struct sa_error e = {SA_EXIT_DONE, ""};
    struct sa_process process;
    double at = now();

    if (next->before->count)
        before = bsearch(&key, next->before->rows, next->before->count, sizeof(key), by_pid);
    if (!before && next->before->other_count) {
        sa_process_read(pid, &process);
        if (is_other(next->before, &process, at)) {
            struct sa_row_other other = {.pid = pid};

            other = *(struct sa_row_other *)bsearch(&other, next->before->others,
                                                    next->before->other_count, sizeof(other),
                                                    other_by_pid);
            add_other(next, &process, other.until);
            return;
        }
    }
    if (sa_row_read(pid, before, &row, &e)) {
        if (sa_array_room(&next->rows.rows, &next->rows.cap, next->rows.count + 1, sizeof(row), 16))
            next->rows.rows[next->rows.count++] = row;
        return;
    }
    next->rows.refused += e.code == SA_EXIT_REFUSED;
    next->rows.damaged += e.code == SA_EXIT_VERSION || e.code == SA_EXIT_DAMAGED;
    if (next->complain && (e.code == SA_EXIT_VERSION || e.code == SA_EXIT_DAMAGED))
        sa_error_print(&e);
    if (e.code == SA_EXIT_NOT_ON_IT) {
        sa_process_read(pid, &process);
        add_other(next, &process, at + OTHER_SECONDS);
    }
}

bool sa_rows_read(struct sa_rows *rows, bool complain, struct sa_error *e)
{
    struct next next = {.before = rows, .complain = complain};
    size_t count;
    pid_t *list = sa_processes_list(&count);

    if (!list) {
        sa_error_set(e, SA_EXIT_FAILED, "/proc cannot be read");
        return false;
    }
    sa_rows_sort(rows, SA_ROWS_BY_PID);
    for (size_t i = 0; i < count; i++)
        read_process(&next, list[i]);
    free(list);
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
    fprintf(to, "%8s %-16s %10s %10s %10s %10s %10s %9s %8s\n", "PID", "NAME", "RSS MiB",
            "SALLOC MiB", "IN USE MiB", "CACHES MiB", "FRAG MiB", "MiB/s", "SAMPLES");
}

void sa_row_print(const struct sa_row_values *row, FILE *to)
{
    char rate[32] = "?";

    if (row->rate >= 0)
        snprintf(rate, sizeof(rate), "%.1f", row->rate / MIB);
    fprintf(to, "%8d %-16s %10.1f %10.1f %10.1f %10.1f %10.1f %9s %8llu\n", row->process.pid,
            row->process.name, (double)row->process.resident / MIB, (double)row->salloc / MIB,
            (double)row->in_use / MIB, (double)row->caches / MIB, (double)row->fragmentation / MIB,
            rate, (unsigned long long)row->samples);
}

void sa_rows_free(struct sa_rows *rows)
{
    free(rows->rows);
    free(rows->others);
    memset(rows, 0, sizeof(*rows));
}
