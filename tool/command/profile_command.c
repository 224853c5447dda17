/* SPDX-License-Identifier: Apache-2.0 */
/* sallocctl profile: the heap profile of a process or a core, from outside. */
#include "tool/command/command.h"

#include "sampling/export/write.h"
#include "tool/reading/output.h"
#include "tool/reading/reading.h"
#include "tool/target/stop.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct options {
    const char *file;
    enum salloc_profile_type type;
    bool stop;
    const char *what;
};

static int parse(int argc, char **argv, struct options *ret)
{
    static const struct option names[] = {{"output", required_argument, NULL, 'o'},
                                          {"type", required_argument, NULL, 't'},
                                          {"stop", no_argument, NULL, 's'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    int c;

    memset(ret, 0, sizeof(*ret));
    opterr = 0;
    while ((c = getopt_long(argc, argv, "o:t:h", names, NULL)) != -1) {
        if (c == 'h')
            return sa_command_help(&sa_command_profile);
        if (c == 'o')
            ret->file = optarg;
        else if (c == 's')
            ret->stop = true;
        else if (c != 't')
            return sa_command_misused(&sa_command_profile, "there is no such option");
        else if (strcmp(optarg, "peak") == 0)
            ret->type = SALLOC_PROFILE_PEAK_HEAP;
        else if (strcmp(optarg, "heap") != 0)
            return sa_command_misused(&sa_command_profile, "the types are heap and peak");
    }
    if (optind + 1 != argc)
        return sa_command_misused(&sa_command_profile, "name one process or core");
    ret->what = argv[optind];
    if (!ret->file && isatty(STDOUT_FILENO))
        return sa_command_misused(&sa_command_profile,
                                  "a profile is no text: name a file with -o, or use a pipe");
    if (ret->file && !sa_output_format(ret->file))
        return sa_command_misused(&sa_command_profile,
                                  "the file's ending is none of .pb.gz, .pb, .txt, .collapsed, "
                                  ".folded");
    return -1;
}

static void read_and_write(struct sa_reading *r, const struct options *o, struct sa_error *e)
{
    struct sa_outside_profile p;
    struct sa_stop stop = {0};
    bool fine;

    if (o->stop && r->target.live && !sa_stop_begin(&stop, r->target.pid, e))
        return;
    fine = sa_reading_profile(r, o->type, &p, e);
    sa_stop_end(&stop);
    if (fine) {
        sa_outside_profile_tell(&p);
        sa_output_profile(&p.profile, o->file, e);
    }
    sa_outside_profile_free(&p);
}

static int run(int argc, char **argv)
{
    struct sa_error e = {SA_EXIT_DONE, ""};
    struct sa_reading r;
    struct options o;
    int code = parse(argc, argv, &o);

    if (code >= 0)
        return code;
    if (sa_reading_open(&r, o.what, &e)) {
        read_and_write(&r, &o, &e);
        sa_reading_close(&r);
    }
    return sa_error_print(&e);
}

const struct sa_command sa_command_profile = {
    .name = "profile",
    .run = run,
    .what = "write the heap profile of a process or a core",
    .usage =
        "usage: sallocctl profile [-t heap|peak] [--stop] [-o FILE] PID|CORE\n"
        "\n"
        "Writes the heap profile of a process that runs on salloc, or of its core: what is in "
        "use,\n"
        "and what was ever allocated, for each call stack. The process needs no preparation. It "
        "is\n"
        "neither stopped nor changed.\n"
        "\n"
        "  -o, --output FILE  the format follows from the ending: .pb.gz, .pb (profile.proto, for\n"
        "                     pprof), .txt (a table), .collapsed, .folded (for flame graphs).\n"
        "                     Without it a .pb.gz goes to stdout.\n"
        "  -t, --type TYPE    heap; or peak: what was in use when most was\n"
        "      --stop         stop the process for the milliseconds of the reading\n"
        "\n"
        "Exit code: 0 done, 1 the file cannot be written, 2 usage, 3 there is no such process or\n"
        "core, 4 the kernel refuses to read it, 5 it does not run on salloc, 6 its library is of\n"
        "another version, 7 its memory makes no sense or the core lacks it.\n"};
