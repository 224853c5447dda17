/* SPDX-License-Identifier: Apache-2.0 */
/* sallocctl top: processes on salloc, or the holders of memory in one, live. */
#include "tool/command/command.h"

#include "tool/base/units.h"
#include "tool/command/report_options.h"
#include "tool/report/report_keys.h"
#include "tool/symbol/debuginfod.h"
#include "tool/target/target.h"
#include "tool/top/top.h"

#include <string.h>
#include <unistd.h>

#define ROWS      10
#define EVERY     2.0
#define WITHIN    10.0
#define COUNT_MAX 1000000

extern const struct sa_command sa_command_top;

struct options {
    double every, within;
    unsigned by, count;
    int batch;
};

static const char *take_count(const char *argument, void *field)
{
    uint64_t count;

    if (!sa_units_number(argument, COUNT_MAX, &count) || !count)
        return "it needs a number above 0";
    *(unsigned *)field = (unsigned)count;
    return NULL;
}

static void set(void *options)
{
    *(struct options *)options =
        (struct options){.every = EVERY, .within = WITHIN, .by = 1u << SA_REPORT_FUNCTION_FLAT};
}

static void show(struct sa_top *top, const struct options *o, struct sa_error *e)
{
    if (o->batch)
        sa_top_batch(top, o->count, e);
#ifdef SA_SCREEN
    else
        sa_top_screen(top, e);
#else
    else
        sa_error_set(e, SA_EXIT_FAILED, "this sallocctl was built without ncurses: use --batch");
#endif
}

static int run(const void *options, const struct sa_operands *operands, struct sa_error *e)
{
    const struct options *o = options;
    struct sa_top top = {.o = {.every = o->every,
                               .within = o->within,
                               .by = o->by,
                               .rows = ROWS,
                               .order = SA_ROWS_BY_IN_USE}};

    sa_debuginfod_allow(0); /* a screen does not wait */
    if (operands->count && !operands->sources[0].pid)
        return sa_command_misused(&sa_command_top, "name a process by its PID, or none");
    if (!o->batch && !(isatty(STDIN_FILENO) && isatty(STDOUT_FILENO)))
        return sa_command_misused(&sa_command_top, "this is no terminal: use --batch");
    if (o->count && !o->batch)
        return sa_command_misused(&sa_command_top, "-n needs --batch");
    top.o.pid = operands->sources[0].pid;
    show(&top, o, e);
    sa_top_free(&top);
    return (int)e->code;
}

static const struct sa_command_option table[] = {
    {'b', "by", "TABLES",
     "of a process: what holds memory, as in 'report'; without it, the\n"
     "functions that called malloc\n",
     offsetof(struct options, by), sa_take_tables},
    {0, "every", "TIME", "read anew after each such time, 2 s without it\n",
     offsetof(struct options, every), sa_take_seconds},
    {0, "within", "TIME", "of a process: who grew within that time, 10 s without it\n",
     offsetof(struct options, within), sa_take_seconds},
    {0, "batch", NULL, "print to stdout, one reading after the other\n",
     offsetof(struct options, batch), sa_take_flag},
    {'n', "count", "N", "with --batch: end after N readings\n", offsetof(struct options, count),
     take_count},
};

const struct sa_command sa_command_top = {
    .name = "top",
    .what = "show processes on salloc, or who holds memory in one, live",
    .synopsis = "[OPTION...] [PID]\n",
    .text =
        "Shows the processes on salloc, as 'ps' does, and reads them anew every 2 seconds. With\n"
        "a PID: the process, its holders of memory, and who grew in the last seconds, with 95 %\n"
        "intervals.\n"
        "\n"
        "Keys: q quits; Space pauses; + and - change the time between readings.\n"
        "In the list: arrows choose, Enter looks into a process; m, r, c, f, s and p sort by\n"
        "memory in use, rate, caches, fragmentation, RSS and PID.\n"
        "In a process: Escape goes back, arrows scroll, b shows the next table (functions,\n"
        "lines, ...), w another time of growth.\n",
    SA_COMMAND_OPTIONS(table, struct options),
    .sources = 1,
    .first = 0,
    .last = 1,
    .operands = "name one process, or none",
    .set = set,
    .run = run,
};
