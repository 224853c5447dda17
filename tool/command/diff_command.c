/* SPDX-License-Identifier: Apache-2.0 */
/* sallocctl diff: what changed between two profiles, or in a process within some seconds. */
#include "tool/command/command.h"

#include "tool/base/time.h"
#include "tool/command/report_options.h"
#include "tool/diff/diff_report.h"
#include "tool/page/flame.h"
#include "tool/reading/input.h"
#include "tool/target/target.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

extern const struct sa_command sa_command_diff;

struct options {
    double seconds; /* between two readings of one process; 0: two profiles are named */
    const char *page;
    struct sa_report_options report;
};

static void set(void *options)
{
    *(struct options *)options = (struct options){.report = sa_report_options_default()};
}

static bool may_color(void)
{
    const char *no = getenv("NO_COLOR"), *terminal = getenv("TERM");

    return !(no && *no) && isatty(STDOUT_FILENO) && terminal && strcmp(terminal, "dumb") != 0;
}

/* The page of a comparison. Two readings of one process have the same name. */
static void write_page(const struct sa_profile_file *before, const struct sa_profile_file *after,
                       const struct options *o, char **operands, int count, struct sa_error *e)
{
    const char *const titles[] = {operands[0], operands[count - 1]};

    sa_flame_write_diff(before, after, o->report.metric, titles, o->page, e);
}

static void compare(const struct sa_profile_file *before, const struct sa_profile_file *after,
                    const struct options *o, const char *first_name, const char *second_name,
                    struct sa_error *e)
{
    uint32_t first = sa_file_find_metric(before, o->report.metric, first_name, e), second;

    if (e->code)
        return;
    second = sa_file_find_metric(after, before->types[first].name, second_name, e);
    if (e->code)
        return;
    if (strcmp(before->types[first].unit, after->types[second].unit) != 0)
        sa_error_set(e, SA_EXIT_USAGE, "%s is in %s in %s, but in %s in %s",
                     before->types[first].name, before->types[first].unit, first_name,
                     after->types[second].unit, second_name);
    else if (!sa_diff_report(before, after, first, second, &o->report, may_color(), stdout))
        sa_error_set(e, SA_EXIT_FAILED, "there is no memory for the comparison");
}

static int run(const void *options, const struct sa_operands *operands, struct sa_error *e)
{
    const struct options *o = options;
    struct sa_profile_file before, after;
    int64_t start;

    if (o->seconds > 0 && (operands->count != 1 || !operands->sources[0].pid))
        return sa_command_misused(&sa_command_diff, "with --seconds, name one process");
    if (!(o->seconds > 0) && operands->count != 2)
        return sa_command_misused(&sa_command_diff, sa_command_diff.operands);
    start = sa_time_ns(CLOCK_MONOTONIC);
    if (sa_input_read(&before, operands->sources[0], e)) {
        if (o->seconds > 0)
            sa_time_wait_until(start + (int64_t)(o->seconds * 1e9));
        if (sa_input_read(&after, operands->sources[operands->count - 1], e)) {
            if (o->page)
                write_page(&before, &after, o, operands->of, operands->count, e);
            else
                compare(&before, &after, o, operands->of[0], operands->of[operands->count - 1], e);
            sa_profile_file_free(&after);
        }
        sa_profile_file_free(&before);
    }
    return (int)e->code;
}

static const struct sa_command_option table[] = {
    {'s', "seconds", "TIME", "read the process twice\n", offsetof(struct options, seconds),
     sa_take_seconds},
    {0, "html", "PAGE",
     "write a page instead, with a flame graph of the changes; '-' is\n"
     "stdout\n",
     offsetof(struct options, page), sa_take_text},
    SA_OPTION_METRIC(struct options, report),
    SA_OPTION_BY(struct options, report),
    SA_OPTION_ROWS(struct options, report),
    SA_OPTION_SYSROOT,
    SA_OPTION_DEBUGINFOD,
};

const struct sa_command sa_command_diff = {
    .name = "diff",
    .what = "show what changed between two profiles",
    .synopsis = "[OPTION...] BEFORE AFTER\n"
                "[OPTION...] --seconds TIME PID\n",
    .text =
        "Shows what changed between two profiles, or in a process within N seconds: the total and\n"
        "its parts, each change with its 95 % interval. Changes that chance does not explain come\n"
        "first. Between two profiles without a true change, no row is called one in 95 % of\n"
        "comparisons. A profile is a .pb.gz or .pb, a process or a core.\n",
    SA_COMMAND_OPTIONS(table, struct options),
    .sources = 2,
    .first = 1,
    .last = 2,
    .operands = "name two profiles, or one process and --seconds",
    .set = set,
    .run = run,
};
