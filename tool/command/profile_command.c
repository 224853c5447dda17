/* SPDX-License-Identifier: Apache-2.0 */
/* sallocctl profile: the heap profile of a process or a core, from outside. */
#include "tool/command/command.h"

#include "sampling/export/write.h"
#include "tool/reading/output.h"
#include "tool/reading/reading.h"
#include "tool/target/stop.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

extern const struct sa_command sa_command_profile;

struct options {
    const char *file;
    enum salloc_profile_type type;
    int stop;
};

static const char *take_type(const char *argument, void *field)
{
    bool peak = strcmp(argument, "peak") == 0;

    if (!peak && strcmp(argument, "heap") != 0)
        return "the types are heap and peak";
    *(enum salloc_profile_type *)field = peak ? SALLOC_PROFILE_PEAK_HEAP : SALLOC_PROFILE_HEAP;
    return NULL;
}

static void read_and_write(struct sa_reading *r, const struct options *o, struct sa_error *e)
{
    struct sa_outside_profile p;
    struct sa_target_stop stop = {0};
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

static int run(const void *options, int count, char **operands)
{
    const struct options *o = options;
    struct sa_error e = {SA_EXIT_DONE, ""};
    struct sa_reading r;

    (void)count;
    if (!o->file && isatty(STDOUT_FILENO))
        return sa_command_misused(&sa_command_profile,
                                  "a profile is no text: name a file with -o, or use a pipe");
    if (sa_reading_open(&r, operands[0], &e)) {
        read_and_write(&r, o, &e);
        sa_reading_close(&r);
    }
    return sa_error_print(&e);
}

static void set(void *options)
{
    *(struct options *)options = (struct options){.type = SALLOC_PROFILE_HEAP};
}

static const struct sa_command_option table[] = {
    {'o', "output", "FILE",
     "the format follows from the ending: .pb.gz, .pb (profile.proto, for\n"
     "pprof), .txt (a table), .collapsed, .folded (for flame graphs).\n"
     "Without it a .pb.gz goes to stdout.\n",
     offsetof(struct options, file), sa_take_output},
    {'t', "type", "TYPE", "heap; or peak: what was in use when most was\n",
     offsetof(struct options, type), take_type},
    {0, "stop", NULL, "stop the process for the milliseconds of the reading\n",
     offsetof(struct options, stop), sa_take_flag},
};

const struct sa_command sa_command_profile = {
    .name = "profile",
    .what = "write the heap profile of a process or a core",
    .synopsis = "[OPTION...] PID|CORE\n",
    .text =
        "Writes the heap profile of a process that runs on salloc, or of its core: what is in "
        "use,\n"
        "and what was ever allocated, for each call stack. The process needs no preparation. It\n"
        "is neither stopped nor changed.\n",
    SA_COMMAND_OPTIONS(table, struct options),
    .first = 1,
    .last = 1,
    .operands = "name one process or core",
    .set = set,
    .run = run,
};
