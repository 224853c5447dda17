/* SPDX-License-Identifier: Apache-2.0 */
/* sallocctl report: tables of a profile file, a process or a core. */
#include "tool/command.h"

#include "tool/file_report.h"
#include "tool/input.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define ROWS     10
#define ROWS_MAX 1000000

struct options {
    const char *what, *metric;
    struct sa_report_options report;
};

/* Columns of the terminal; 0: it is none, and names stay whole. */
static unsigned columns(void)
{
    struct winsize size;

    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

static int parse(int argc, char **argv, struct options *ret)
{
    static const struct option names[] = {{"metric", required_argument, NULL, 'm'},
                                          {"by", required_argument, NULL, 'b'},
                                          {"rows", required_argument, NULL, 'n'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    unsigned long rows;
    char *end;
    int c;

    *ret = (struct options){.report = {.rows = ROWS, .width = columns()}};
    opterr = 0;
    while ((c = getopt_long(argc, argv, "m:b:n:h", names, NULL)) != -1) {
        if (c == 'h')
            return sa_command_help(&sa_command_report);
        if (c == 'm') {
            ret->metric = optarg;
        } else if (c == 'b') {
            ret->report.by = sa_report_by(optarg);
            if (!ret->report.by)
                return sa_command_misused(&sa_command_report,
                                          "the tables are function, line, library, size, thread, "
                                          "lifetime, stack");
        } else if (c == 'n') {
            rows = strtoul(optarg, &end, 10);
            if (*end || end == optarg || rows > ROWS_MAX)
                return sa_command_misused(&sa_command_report, "--rows needs a number; 0: all");
            ret->report.rows = (unsigned)rows;
        } else {
            return sa_command_misused(&sa_command_report, "there is no such option");
        }
    }
    if (optind + 1 != argc)
        return sa_command_misused(&sa_command_report, "name one profile, process or core");
    ret->what = argv[optind];
    return -1;
}

static void report(const struct sa_profile_file *file, const struct options *o, struct sa_error *e)
{
    uint32_t metric = sa_file_metric(file, o->metric);

    if (metric == SA_FILE_NONE)
        sa_error_set(e, SA_EXIT_USAGE, "%s has no metric '%s'", o->what, o->metric);
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
