/* SPDX-License-Identifier: Apache-2.0 */
/* sallocctl ps: the processes that run on salloc. */
#include "tool/command/command.h"

#include "tool/base/error.h"
#include "tool/base/time.h"
#include "tool/top/row.h"

#include <errno.h>
#include <stdio.h>
#include <time.h>

struct options {
    double seconds; /* between two readings; 0: one reading */
};

static int run(const void *options, const struct sa_operands *operands, struct sa_error *e)
{
    const struct options *o = options;
    struct sa_rows rows = {0};
    size_t damaged;
    bool fine;

    (void)operands;
    fine = sa_rows_read(&rows, e);
    if (fine && o->seconds > 0) {
        sa_time_wait(o->seconds);
        fine = sa_rows_read(&rows, e);
    }
    if (!fine)
        return (int)e->code;
    sa_rows_sort(&rows, SA_ROWS_BY_PID);
    sa_rows_print_head(stdout);
    for (size_t i = 0; i < rows.count; i++)
        sa_row_print(&rows.rows[i], stdout);
    if (rows.refused)
        fprintf(stderr,
                "sallocctl: processes that may not be read: %zu; 'sallocctl profile %d' says why "
                "of one\n",
                rows.refused, (int)rows.refused_pid);
    damaged = rows.damaged;
    sa_rows_free(&rows);
    return damaged ? SA_EXIT_DAMAGED : SA_EXIT_DONE;
}

static const struct sa_command_option table[] = {
    {'s', "seconds", "TIME", "read twice, so far apart, and show the rate in between\n",
     offsetof(struct options, seconds), sa_take_seconds},
};

const struct sa_command sa_command_ps = {
    .name = "ps",
    .what = "list the processes that run on salloc",
    .synopsis = "[--seconds TIME]\n",
    .text = "Lists the processes that run on salloc and may be read, by PID:\n"
            "\n"
            "  RSS MiB     memory of the process, of all kinds\n"
            "  SALLOC MiB  of the allocator: all that it uses\n"
            "  IN USE MiB  of that, in use by the program\n"
            "  CACHES MiB  of that, free in the caches of CPUs, threads, and transfer caches\n"
            "  FRAG MiB    of that, what would go back if blocks lay as densely as possible\n"
            "  FRAG%       the same, in percent of the RSS\n"
            "  MiB/s       allocated each second, since the first allocation\n"
            "  SAMPLES     live samples, of which a profile is made\n",
    .exit_codes = "0 done, 1 it could not be printed, 2 usage, 7 one could not be understood.\n",
    SA_COMMAND_OPTIONS(table, struct options),
    .operands = "it takes no arguments",
    .run = run,
};
