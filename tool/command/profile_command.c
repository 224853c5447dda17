/* SPDX-License-Identifier: Apache-2.0 */
/* sallocctl profile: the heap profile of a process or a core, from outside. */
#include "tool/command/command.h"

#include "sampling/export/write.h"
#include "tool/reading/allocations.h"
#include "tool/reading/output.h"
#include "tool/reading/reading.h"
#include "tool/stats/stats_page.h"
#include "tool/target/stop.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

extern const struct sa_command sa_command_profile;

struct options {
    const char *file;
    enum salloc_profile_type type;
    double seconds; /* of ALLOCATIONS; 0: not given */
    int stop;
};

/* The seconds for which allocations are watched, unless --seconds says others. */
#define SECONDS 30

static const char *take_type(const char *argument, void *field)
{
    static const struct {
        const char *name;
        enum salloc_profile_type type;
    } types[] = {{"heap", SALLOC_PROFILE_HEAP},
                 {"peak", SALLOC_PROFILE_PEAK_HEAP},
                 {"fragmentation", SALLOC_PROFILE_FRAGMENTATION},
                 {"allocations", SALLOC_PROFILE_ALLOCATIONS}};

    for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++) {
        if (strcmp(argument, types[i].name) != 0)
            continue;
        *(enum salloc_profile_type *)field = types[i].type;
        return NULL;
    }
    return "the types are heap, peak, fragmentation and allocations";
}

/* The most that can be wasted, which bounds intervals, and what mixed spans save. */
static bool read_waste(struct sa_reading *r, struct sa_profile *profile, struct sa_error *e)
{
    struct sa_stats_numbers numbers;

    if (!sa_stats_read(&r->target, &r->table, &numbers, e))
        return false;
    profile->waste_max = numbers.waste;
    profile->mixed_saved = numbers.m.mixed_saved_bytes;
    return true;
}

static void read_and_write(struct sa_reading *r, struct sa_source source, const struct options *o,
                           struct sa_error *e)
{
    struct sa_outside_profile p;
    struct sa_target_stop stop = {0};
    bool fine;

    if (o->stop && r->target.live && !sa_reading_stop(r, source, &stop, e))
        return;
    fine = o->type == SALLOC_PROFILE_ALLOCATIONS
               ? sa_reading_allocations(r, o->seconds > 0 ? o->seconds : SECONDS, &p, e)
               : sa_reading_profile(r, o->type, &p, e);
    if (fine && o->type == SALLOC_PROFILE_FRAGMENTATION)
        fine = read_waste(r, &p.profile, e);
    sa_stop_end(&stop);
    if (fine) {
        sa_outside_profile_tell(&p);
        sa_output_profile(&p.profile, o->file, e);
    }
    sa_outside_profile_free(&p);
}

static int run(const void *options, const struct sa_operands *operands, struct sa_error *e)
{
    const struct options *o = options;
    struct sa_reading r;

    if (!o->file && isatty(STDOUT_FILENO))
        return sa_command_misused(&sa_command_profile,
                                  "a profile is no text: name a file with -o, or use a pipe");
    if (o->type != SALLOC_PROFILE_ALLOCATIONS && o->seconds > 0)
        return sa_command_misused(&sa_command_profile, "--seconds needs -t allocations");
    if (o->type == SALLOC_PROFILE_ALLOCATIONS && (o->stop || !operands->sources[0].pid))
        return sa_command_misused(&sa_command_profile,
                                  "-t allocations needs a process, which is not stopped");
    if (sa_reading_open(&r, operands->sources[0], e)) {
        read_and_write(&r, operands->sources[0], o, e);
        sa_reading_close(&r);
    }
    return (int)e->code;
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
    {'t', "type", "TYPE",
     "heap; peak: what was in use when most was; fragmentation: the free\n"
     "memory that blocks in use keep from other use; allocations: what\n"
     "the process allocates from now on, for 30 seconds or those of\n"
     "--seconds\n",
     offsetof(struct options, type), take_type},
    {'s', "seconds", "TIME", "of -t allocations\n", offsetof(struct options, seconds),
     sa_take_seconds},
    {0, "stop", NULL, "stop the process for the milliseconds of the reading\n",
     offsetof(struct options, stop), sa_take_flag},
    SA_OPTION_SYSROOT,
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
    .sources = 1,
    .first = 1,
    .last = 1,
    .operands = "name one process or core",
    .set = set,
    .run = run,
};
