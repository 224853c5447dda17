/* SPDX-License-Identifier: Apache-2.0 */
/* sallocctl diff: what changed between two profiles, or in a process within some seconds. */
#include "tool/command/command.h"

#include "tool/command/report_options.h"
#include "tool/diff/diff_report.h"
#include "tool/reading/input.h"
#include "tool/target/target.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SECONDS_MAX (366.0 * 86400)

struct options {
    const char *before, *after;
    double seconds; /* between two readings of one process; 0: two profiles are named */
    struct sa_report_options report;
};

static int parse(int argc, char **argv, struct options *ret)
{
    static const struct option names[] = {SA_REPORT_OPTIONS,
                                          {"seconds", required_argument, NULL, 's'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    int c, code;
    char *end;

    *ret = (struct options){.report = sa_report_options_default()};
    opterr = 0;
    while ((c = getopt_long(argc, argv, SA_REPORT_LETTERS "s:h", names, NULL)) != -1) {
        if (c == 'h')
            return sa_command_help(&sa_command_diff);
        if (c != 's') {
            code = sa_report_option(&sa_command_diff, c, optarg, &ret->report);
            if (code >= 0)
                return code;
            continue;
        }
        ret->seconds = strtod(optarg, &end);
        if (*end || end == optarg || !(ret->seconds > 0 && ret->seconds <= SECONDS_MAX))
            return sa_command_misused(&sa_command_diff, "--seconds needs a number above 0");
    }
    if (ret->seconds > 0 && (optind + 1 != argc || !sa_target_is_process(argv[optind])))
        return sa_command_misused(&sa_command_diff, "with --seconds, name one process");
    if (!(ret->seconds > 0) && optind + 2 != argc)
        return sa_command_misused(&sa_command_diff,
                                  "name two profiles, or one process and --seconds");
    ret->before = argv[optind];
    ret->after = argv[argc - 1];
    return -1;
}

/* Waits until so many seconds after a moment. */
static void wait_until(struct timespec start, double seconds)
{
    start.tv_sec += (time_t)seconds;
    start.tv_nsec += (long)((seconds - (double)(time_t)seconds) * 1e9);
    if (start.tv_nsec >= 1000000000) {
        start.tv_sec++;
        start.tv_nsec -= 1000000000;
    }
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &start, NULL) == EINTR)
        ;
}

static bool may_color(void)
{
    const char *no = getenv("NO_COLOR"), *terminal = getenv("TERM");

    return !(no && *no) && isatty(STDOUT_FILENO) && terminal && strcmp(terminal, "dumb") != 0;
}

static void compare(const struct sa_profile_file *before, const struct sa_profile_file *after,
                    const struct options *o, struct sa_error *e)
{
    uint32_t first = sa_file_metric(before, o->report.metric), second = SA_FILE_NONE;

    if (first == SA_FILE_NONE) {
        sa_error_set(e, SA_EXIT_USAGE, "%s has no metric '%s'", o->before, o->report.metric);
        return;
    }
    second = sa_file_metric(after, before->types[first].name);
    if (second == SA_FILE_NONE || strcmp(before->types[first].unit, after->types[second].unit) != 0)
        sa_error_set(e, SA_EXIT_USAGE,
                     "%s has no metric '%s', which %s has: they cannot be "
                     "compared",
                     o->after, before->types[first].name, o->before);
    else if (!sa_diff_report(before, after, first, second, &o->report, may_color(), stdout))
        sa_error_set(e, SA_EXIT_FAILED, "there is no memory for the comparison");
    if (fflush(stdout) != 0)
        sa_error_set(e, SA_EXIT_FAILED, "stdout: %s", strerror(errno));
}

static int run(int argc, char **argv)
{
    struct sa_error e = {SA_EXIT_DONE, ""};
    struct sa_profile_file before, after;
    struct timespec start;
    struct options o;
    int code = parse(argc, argv, &o);

    if (code >= 0)
        return code;
    clock_gettime(CLOCK_MONOTONIC, &start);
    if (sa_input_read(&before, o.before, &e)) {
        if (o.seconds > 0)
            wait_until(start, o.seconds);
        if (sa_input_read(&after, o.after, &e)) {
            compare(&before, &after, &o, &e);
            sa_profile_file_free(&after);
        }
        sa_profile_file_free(&before);
    }
    return sa_error_print(&e);
}

const struct sa_command sa_command_diff = {
    .name = "diff",
    .run = run,
    .what = "show what changed between two profiles",
    .usage =
        "usage: sallocctl diff [OPTION...] BEFORE AFTER\n"
        "       sallocctl diff [OPTION...] --seconds N PID\n"
        "\n"
        "Shows what changed between two profiles, or in a process within N seconds: the total and\n"
        "its parts, each change with its 95 % interval. Changes that chance does not explain come\n"
        "first. Between two profiles without a true change, no row is called one in 95 % of\n"
        "comparisons. A profile is a .pb.gz or .pb, a process or a core.\n"
        "\n"
        "  -s, --seconds N    read the process twice\n"
        "  -m, --metric NAME  as alloc_space; else the one that the first profile shows first\n"
        "  -b, --by TABLES    which tables, as function,stack: function, line, library, size,\n"
        "                     thread, lifetime, stack. Else all that have something to say.\n"
        "  -n, --rows N       N rows of each table, 10 without it; 0: all\n"
        "\n"
        "Exit code: 0 done, 1 a file cannot be read, 2 usage, 3 there is no such file or process,\n"
        "4 the kernel refuses to read it, 5 it does not run on salloc, 6 its library is of "
        "another\n"
        "version, 7 it is no profile, or damaged.\n"};
