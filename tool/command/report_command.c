/* SPDX-License-Identifier: Apache-2.0 */
/* sallocctl report: tables of a profile file, a process or a core. */
#include "tool/command/command.h"

#include "tool/command/report_options.h"
#include "tool/reading/input.h"

#include <errno.h>
#include <string.h>

struct options {
    struct sa_report_options report;
};

static void set(void *options)
{
    *(struct options *)options = (struct options){.report = sa_report_options_default()};
}

static void report(const struct sa_profile_file *file, const char *what, const struct options *o,
                   struct sa_error *e)
{
    uint32_t metric = sa_file_find_metric(file, o->report.metric, what, e);

    if (!e->code && !sa_file_report(file, metric, &o->report, stdout))
        sa_error_set(e, SA_EXIT_FAILED, "there is no memory for the report");
}

static int run(const void *options, const struct sa_operands *operands, struct sa_error *e)
{
    struct sa_profile_file file;

    if (sa_input_read(&file, operands->sources[0], e)) {
        report(&file, operands->of[0], options, e);
        sa_profile_file_free(&file);
    }
    return (int)e->code;
}

static const struct sa_command_option table[] = {
    SA_OPTION_METRIC(struct options, report),
    SA_OPTION_BY(struct options, report),
    SA_OPTION_ROWS(struct options, report),
    SA_OPTION_SYSROOT,
    SA_OPTION_DEBUGINFOD,
};

const struct sa_command sa_command_report = {
    .name = "report",
    .what = "show a profile as tables",
    .synopsis = "[OPTION...] FILE|PID|CORE\n",
    .text =
        "Shows a profile: the total with its 95 % interval, and its parts by function, source\n"
        "line, library, size, thread, lifetime and stack. Functions and lines come twice: by the\n"
        "caller of malloc, and with all that they call. The profile is a .pb.gz or .pb, or the\n"
        "heap of a process or core, as 'sallocctl profile' reads it.\n",
    SA_COMMAND_OPTIONS(table, struct options),
    .sources = 1,
    .first = 1,
    .last = 1,
    .operands = "name one profile, process or core",
    .set = set,
    .run = run,
};
