/* SPDX-License-Identifier: Apache-2.0 */
/* sallocctl flame: a profile file, a process or a core as a page for browsers. */
#include "tool/command/command.h"

#include "tool/base/error.h"
#include "tool/base/io.h"
#include "tool/command/report_options.h"
#include "tool/page/flame.h"
#include "tool/reading/input.h"
#include "tool/reading/ticker.h"
#include "tool/target/target.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const struct sa_command sa_command_flame;

struct options {
    const char *out, *metric;
    double every, seconds; /* of a time line; 0: none */
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

/* Reads the process until the time is over, or the process, and writes the page. */
static bool write_time_line(struct sa_source source, const struct options *o, const char *page,
                            struct sa_error *e)
{
    struct sa_moments *m = calloc(1, sizeof(*m));
    struct sa_ticker ticker = sa_ticker_begin(o->every);
    char root[SA_PROC_PATH];

    if (!m) {
        sa_error_set(e, SA_EXIT_FAILED, "there is no memory for the time line");
        return false;
    }
    while (sa_moments_add(m, source.pid, e) && sa_ticker_passed(&ticker) + o->every <= o->seconds)
        sa_ticker_wait(&ticker);
    if (m->count)
        e->code = SA_EXIT_DONE; /* the process has ended */
    sa_io_proc_path(root, source.pid, "root");
    if (!e->code)
        sa_flame_write_moments(m, sa_moments_are_live(m) ? root : NULL, o->metric, source.name,
                               page, e);
    sa_moments_free(m);
    free(m);
    return !e->code;
}

static bool write_page(struct sa_source source, const struct options *o, const char *page,
                       struct sa_error *e)
{
    struct sa_profile_file file;

    if (o->every > 0)
        return write_time_line(source, o, page, e);
    if (!sa_input_read(&file, source, e))
        return false;
    sa_flame_write(&file, o->metric, source.name, page, e);
    sa_profile_file_free(&file);
    return !e->code;
}

static int run(const void *options, const struct sa_operands *operands, struct sa_error *e)
{
    const struct options *o = options;
    const char *path;
    char *beside;

    if ((o->every > 0) != (o->seconds > 0) || (o->every > 0 && !operands->sources[0].pid))
        return sa_command_misused(&sa_command_flame,
                                  "a time line needs --every, --for, and one process");
    beside = page_name(operands->of[0]);
    path = o->out ? o->out : beside;
    if (!path)
        sa_error_set(e, SA_EXIT_FAILED, "there is no memory for a name");
    else if (write_page(operands->sources[0], o, path, e) && !o->out)
        printf("%s\n", path);
    free(beside);
    return (int)e->code;
}

static const struct sa_command_option table[] = {
    {'o', "output", "PAGE", "the page; '-' is stdout\n", offsetof(struct options, out),
     sa_take_text},
    {'m', "metric", "NAME",
     "what the page shows first, as inuse_objects; else the one that the\n"
     "profile shows first\n",
     offsetof(struct options, metric), sa_take_text},
    {0, "every", "TIME", "with --for: a page with a time line, read after each such time\n",
     offsetof(struct options, every), sa_take_seconds},
    {0, "for", "TIME", "how long; less if the process ends\n", offsetof(struct options, seconds),
     sa_take_seconds},
    SA_OPTION_SYSROOT,
    SA_OPTION_DEBUGINFOD,
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
    .sources = 1,
    .first = 1,
    .last = 1,
    .operands = "name one profile, process or core",
    .run = run,
};
