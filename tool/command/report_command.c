/* SPDX-License-Identifier: Apache-2.0 */
/* sallocctl report: tables of a profile file, a process or a core. */
#include "tool/command/command.h"

#include "tool/command/report_options.h"
#include "tool/reading/input.h"

#include <errno.h>
#include <getopt.h>
#include <string.h>

struct options {
    const char *what;
    struct sa_report_options report;
};

static int parse(int argc, char **argv, struct options *ret)
{
    static const struct option names[] = {
        SA_REPORT_OPTIONS, {"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};
    int c, code;

    *ret = (struct options){.report = sa_report_options_default()};
    opterr = 0;
    while ((c = getopt_long(argc, argv, SA_REPORT_LETTERS "h", names, NULL)) != -1) {
        if (c == 'h')
            return sa_command_help(&sa_command_report);
        code = sa_report_option(&sa_command_report, c, optarg, &ret->report);
        if (code >= 0)
            return code;
    }
    if (optind + 1 != argc)
        return sa_command_misused(&sa_command_report, "name one profile, process or core");
    ret->what = argv[optind];
    return -1;
}

static void report(const struct sa_profile_file *file, const struct options *o, struct sa_error *e)
{
    uint32_t metric = sa_file_metric(file, o->report.metric);

    if (metric == SA_FILE_NONE)
        sa_error_set(e, SA_EXIT_USAGE, "%s has no metric '%s'", o->what, o->report.metric);
    else if (!sa_file_report(file, metric, &o->report, stdout))
        sa_error_set(e, SA_EXIT_FAILED, "there is no memory for the report");
    if (fflush(stdout) != 0)
        sa_error_set(e, SA_EXIT_FAILED, "stdout: %s", strerror(errno));
}

static int run(int argc, char **argv)
{
    struct sa_error e = {SA_EXIT_DONE, ""};
    struct sa_profile_file file;
    struct options o;
    int code = parse(argc, argv, &o);

    if (code >= 0)
        return code;
    if (sa_input_read(&file, o.what, &e)) {
        report(&file, &o, &e);
        sa_profile_file_free(&file);
    }
    return sa_error_print(&e);
}

const struct sa_command sa_command_report = {
    .name = "report",
    .run = run,
    .what = "show a profile as tables",
    .usage =
        "usage: sallocctl report [--metric NAME] [--by TABLES] [--rows N] FILE|PID|CORE\n"
        "\n"
        "Shows a profile: the total with its 95 % interval, and its parts by function, source "
        "line,\n"
        "library, size, thread, lifetime and stack. Functions and lines come twice: by the caller\n"
        "of malloc, and with all that they call. The profile is a .pb.gz or .pb, or the heap of a\n"
        "process or core, as 'sallocctl profile' reads it.\n"
        "\n"
        "  -m, --metric NAME  as alloc_space; else the one that the profile shows first\n"
        "  -b, --by TABLES    which tables, as line,stack: function, line, library, size, thread,\n"
        "                     lifetime, stack. Else all that the profile has something for.\n"
        "  -n, --rows N       the N largest rows of each table, 10 without it; 0: all\n"
        "\n"
        "Exit code: 0 done, 1 a file cannot be read, 2 usage, 3 there is no such file or process,\n"
        "4 the kernel refuses to read it, 5 it does not run on salloc, 6 its library is of "
        "another\n"
        "version, 7 it is no profile, or damaged.\n"};
