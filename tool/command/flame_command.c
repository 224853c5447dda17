/* SPDX-License-Identifier: Apache-2.0 */
/* sallocctl flame: a profile file, a process or a core as a page for browsers. */
#include "tool/command/command.h"

#include "tool/base/error.h"
#include "tool/page/flame.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct options {
    const char *out, *metric;
};

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

static int run(const void *options, int count, char **operands)
{
    const struct options *o = options;
    const char *in = operands[0], *path;
    struct sa_error e = {SA_EXIT_DONE, ""};
    char *beside = page_name(in);

    (void)count;
    path = o->out ? o->out : beside;
    if (!path)
        sa_error_set(&e, SA_EXIT_FAILED, "there is no memory for a name");
    else if (sa_flame_write(in, o->metric, in, strcmp(path, "-") == 0 ? NULL : path, &e) && !o->out)
        printf("%s\n", path);
    if (fflush(stdout) != 0)
        sa_error_set(&e, SA_EXIT_FAILED, "stdout cannot be written");
    free(beside);
    return sa_error_print(&e);
}

static const struct sa_command_option table[] = {
    {'o', "output", "PAGE", "the page; '-' is stdout\n", offsetof(struct options, out),
     sa_take_text},
    {'m', "metric", "NAME",
     "what the page shows first, as inuse_objects; else the one that the\n"
     "profile shows first\n",
     offsetof(struct options, metric), sa_take_text},
};

const struct sa_command sa_command_flame = {
    .name = "flame",
    .what = "show a profile as a flame graph, in a page for browsers",
    .synopsis = "[OPTION...] FILE|PID|CORE\n",
    .text =
        "Writes a page of HTML that shows a .pb.gz or .pb, or the heap of a process or of its\n"
        "core: flame graph and tables, with 95 % intervals, search, filters by thread and size.\n"
        "The page needs no network and no other file. Without -o, it lies beside FILE or CORE, or\n"
        "here for a process, and its name goes to stdout.\n",
    SA_COMMAND_OPTIONS(table, struct options),
    .first = 1,
    .last = 1,
    .operands = "name one profile, process or core",
    .run = run,
};
