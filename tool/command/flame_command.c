/* SPDX-License-Identifier: Apache-2.0 */
/* sallocctl flame: a profile file, a process or a core as a page for browsers. */
#include "tool/command/command.h"

#include "tool/base/error.h"
#include "tool/page/flame.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct options {
    const char *in, *out, *metric;
};

static int parse(int argc, char **argv, struct options *ret)
{
    static const struct option names[] = {{"output", required_argument, NULL, 'o'},
                                          {"metric", required_argument, NULL, 'm'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    int c;

    memset(ret, 0, sizeof(*ret));
    opterr = 0;
    while ((c = getopt_long(argc, argv, "o:m:h", names, NULL)) != -1) {
        if (c == 'h')
            return sa_command_help(&sa_command_flame);
        if (c == 'o')
            ret->out = optarg;
        else if (c == 'm')
            ret->metric = optarg;
        else
            return sa_command_misused(&sa_command_flame, "there is no such option");
    }
    if (optind + 1 != argc)
        return sa_command_misused(&sa_command_flame, "name one profile, process or core");
    ret->in = argv[optind];
    return -1;
}

/* The name of the page beside its profile, to be freed: another ending. */
static char *page_name(const char *profile)
{
    static const char *const endings[] = {".pb.gz", ".pb", ""};
    size_t length = strlen(profile), n = 0;
    char *name;

    for (size_t i = 0; i < sizeof(endings) / sizeof(*endings); i++) {
        n = strlen(endings[i]);
        if (length > n && strcmp(profile + length - n, endings[i]) == 0)
            break;
    }
    return asprintf(&name, "%.*s.html", (int)(length - n), profile) < 0 ? NULL : name;
}

static int run(int argc, char **argv)
{
    struct sa_error e = {SA_EXIT_DONE, ""};
    const char *path;
    struct options o;
    char *beside;
    int code = parse(argc, argv, &o);

    if (code >= 0)
        return code;
    beside = page_name(o.in);
    path = o.out ? o.out : beside;
    if (!path)
        sa_error_set(&e, SA_EXIT_FAILED, "there is no memory for a name");
    else if (sa_flame_write(o.in, o.metric, o.in, strcmp(path, "-") == 0 ? NULL : path, &e) &&
             !o.out)
        printf("%s\n", path);
    if (fflush(stdout) != 0)
        sa_error_set(&e, SA_EXIT_FAILED, "stdout cannot be written");
    free(beside);
    return sa_error_print(&e);
}

const struct sa_command sa_command_flame = {
    .name = "flame",
    .run = run,
    .what = "show a profile as a flame graph, in a page for browsers",
    .usage =
        "usage: sallocctl flame [--metric NAME] [-o PAGE] FILE|PID|CORE\n"
        "\n"
        "Writes a page of HTML that shows a .pb.gz or .pb, or the heap of a process or of its\n"
        "core: flame graph and tables, with 95 % intervals, search, filters by thread and size.\n"
        "The page needs no network and no other file. Without -o, it lies beside FILE or CORE, or\n"
        "here for a process, and its name goes to stdout.\n"
        "\n"
        "  -o, --output PAGE  the page; '-' is stdout\n"
        "  -m, --metric NAME  what the page shows first, as inuse_objects; else the one that the\n"
        "                     profile shows first\n"
        "\n"
        "Exit code: 0 done, 1 a file cannot be read or written, 2 usage, 3 there is no such file\n"
        "or process, 4 the kernel refuses to read it, 5 it does not run on salloc, 6 its library\n"
        "is of another version, 7 it is no profile, or damaged.\n"};
