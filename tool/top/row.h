/* SPDX-License-Identifier: Apache-2.0 */
/* Processes on salloc as rows of a table: for `ps`, and for `top`, which reads them again and
 * again. */
#ifndef SA_TOOL_TOP_ROW_H
#define SA_TOOL_TOP_ROW_H

#include "tool/base/error.h"
#include "tool/reading/processes.h"
#include "tool/reading/reading.h"

#include <stdbool.h>
#include <stdio.h>

struct sa_row_values {
    struct sa_process process;
    uint64_t salloc;                         /* bytes: all that the allocator uses, */
    uint64_t in_use;                         /* of those, what the program uses, */
    uint64_t caches;                         /* what lies free in caches, */
    uint64_t fragmentation;                  /* and what would go back if blocks lay densely */
    uint64_t mixed, mixed_used, mixed_saved; /* the metrics mixed_bytes and so on */
    uint64_t samples;
    uint64_t allocated; /* bytes since the start */
    double at;          /* seconds of the monotonic clock: when it was read */
    double rate;        /* bytes allocated each second; negative: not known */
};

enum sa_row_order {
    SA_ROWS_BY_PID,
    SA_ROWS_BY_IN_USE,
    SA_ROWS_BY_RATE,
    SA_ROWS_BY_CACHES,
    SA_ROWS_BY_FRAGMENTATION,
    SA_ROWS_BY_RESIDENT,
};

struct sa_rows {
    struct sa_row_values *rows;
    size_t count, cap;
    size_t refused, damaged; /* processes that may not be read; whose memory makes no sense */
    pid_t refused_pid;       /* one of those that may not be read */

    /* Processes that did not run on salloc when they were last looked at. */
    struct sa_row_other {
        pid_t pid;
        uint64_t started;
        double until; /* when to look again: a process may become another program */
    } * others;
    size_t other_count, other_cap;
};

/*
 * Reads all processes anew. Rates are those since the reading before, if the process was there,
 * else since its first allocation. A note names each that could not be
 * understood.
 */
bool sa_rows_read(struct sa_rows *rows, struct sa_error *e);

/* Reads one process. before: an earlier reading, or NULL. */
bool sa_row_read(struct sa_reading *r, const struct sa_row_values *before,
                 struct sa_row_values *ret, struct sa_error *e);

/* The largest first, or in the order of PIDs. */
void sa_rows_sort(struct sa_rows *rows, enum sa_row_order order);

/* Print the line of titles, and a row. */
void sa_rows_print_head(FILE *to);
void sa_row_print(const struct sa_row_values *row, FILE *to);

/* Prints a line about mixed spans, if the process has any. */
void sa_row_print_mixed(const struct sa_row_values *row, FILE *to);

void sa_rows_free(struct sa_rows *rows);

#endif
