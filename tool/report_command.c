/* SPDX-License-Identifier: Apache-2.0 */
/* sallocctl report: tables of a profile file. */
#include "tool/command.h"

#include "tool/file_report.h"

#include <errno.h>
#include <getopt.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define ROWS 20

static int columns(void)
{
    struct winsize size;

    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col ? size.ws_col : 120;
}

static int run(int argc, char **argv)
{
    static const struct option names[] = {{"metric", required_argument, NULL, 'm'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    struct sa_error e = {SA_EXIT_DONE, ""};
    const char *name = NULL;
    struct sa_profile_file file;
    uint32_t metric;
    int c;

    opterr = 0;
    while ((c = getopt_long(argc, argv, "m:h", names, NULL)) != -1) {
        if (c == 'h')
            return sa_command_help(&sa_command_report);
        if (c != 'm')
            return sa_command_misused(&sa_command_report, "there is no such option");
        name = optarg;
    }
    if (optind + 1 != argc)
        return sa_command_misused(&sa_command_report, "name one profile file");
    if (!sa_profile_file_read(&file, argv[optind], &e))
        return sa_error_print(&e);
    metric = sa_file_metric(&file, name);
    if (metric == SA_FILE_NONE)
        sa_error_set(&e, SA_EXIT_USAGE, "%s has no metric '%s'", argv[optind], name);
    else if (!sa_file_report(&file, metric, ROWS, columns(), stdout))
        sa_error_set(&e, SA_EXIT_FAILED, "there is no memory for the report");
    if (fflush(stdout) != 0)
        sa_error_set(&e, SA_EXIT_FAILED, "stdout: %s", strerror(errno));
    sa_profile_file_free(&file);
    return sa_error_print(&e);
}

const struct sa_command sa_command_report = {
    .name = "report",
    .run = run,
    .what = "show a profile file as tables",
    .usage =
        "usage: sallocctl report [--metric NAME] FILE\n"
        "\n"
        "Shows a .pb.gz or .pb: the total with its 95 % interval, and its parts by function, flat\n"
        "and with all that it calls, by library, size and thread. The 20 largest rows of each.\n"
        "\n"
        "  -m, --metric NAME  as alloc_space; else the one that the profile shows first\n"
        "\n"
        "Exit code: 0 done, 1 a file cannot be read, 2 usage, 3 there is no such file, 7 it is no\n"
        "profile, or damaged.\n"};
