/* SPDX-License-Identifier: Apache-2.0 */
/* sallocctl leaks: blocks that a process, or the process of a core, cannot reach any more. */
#include "tool/command/command.h"

#include "tool/base/human.h"
#include "tool/base/time.h"
#include "tool/leaks/leak_report.h"
#include "tool/reading/output.h"
#include "tool/target/stop.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct options {
    const char *file;
};

/* What is found while the target does not run. */
struct found {
    struct sa_reading reading;
    struct sa_outside_profile profile;
    struct sa_threads threads; /* of a process */
    struct sa_leaks leaks;
    double stopped_ms; /* negative: a core */
};

static void find(struct found *f, const struct sa_target_stop *stop, struct sa_error *e)
{
    bool live = f->reading.target.live;

    if (live && !sa_threads_read(stop, &f->threads))
        sa_error_set(e, SA_EXIT_FAILED, "there is no memory for the registers");
    if (!e->code && sa_reading_profile(&f->reading, SALLOC_PROFILE_HEAP, &f->profile, e) &&
        sa_leaks_open(&f->leaks, &f->reading, &f->profile.live, e))
        sa_leaks_find(&f->leaks, &f->reading, live ? &f->threads : &f->reading.target.threads, e);
}

/* Whether there is memory for the search, by reading the process as it runs. What else is wrong
 * then may be because it runs. */
static bool try(struct found *f, struct sa_error *e)
{
    struct sa_error one = {SA_EXIT_DONE, ""};
    char heap[SA_HUMAN_BYTES];

    if (sa_reading_profile(&f->reading, SALLOC_PROFILE_HEAP, &f->profile, &one))
        sa_leaks_open(&f->leaks, &f->reading, &f->profile.live, &one);
    sa_leaks_close(&f->leaks);
    sa_outside_profile_free(&f->profile);
    if (one.code != SA_EXIT_FAILED)
        return true;
    one.code = SA_EXIT_DONE;
    sa_human_bytes((double)sa_reading_used_bytes(&f->reading, &one), heap);
    sa_error_set(e, SA_EXIT_FAILED,
                 "process %d is not stopped, as there is no memory for a search of its heap of %s",
                 (int)f->reading.target.pid, heap);
    return false;
}

/* A process is stopped, and only then is it looked where its memory is. */
static void stop_and_find(struct found *f, struct sa_source source, struct sa_error *e)
{
    struct sa_target_stop stop = {0};
    double begin = sa_time_seconds() * 1e3;

    f->stopped_ms = -1;
    if (!sa_reading_open(&f->reading, source, e))
        return;
    if (*f->reading.target.lack) {
        sa_error_set(e, SA_EXIT_DAMAGED, "%s: %s: pointers may be in what it lacks", source.name,
                     f->reading.target.lack);
        return;
    }
    if (f->reading.target.live) {
        if (!try(f, e))
            return;
        begin = sa_time_seconds() * 1e3;
        if (!sa_reading_stop(&f->reading, source, &stop, e))
            return;
        f->stopped_ms = 0;
    }
    find(f, &stop, e);
    sa_stop_end(&stop);
    if (f->stopped_ms == 0)
        f->stopped_ms = sa_time_seconds() * 1e3 - begin;
}

static void put(struct found *f, const char *file, struct sa_error *e)
{
    size_t count = f->leaks.count;
    bool *keep = calloc(count + 1, sizeof(*keep));
    struct sa_sample_copy *live = calloc(count + 1, sizeof(*live));

    if (keep && live) {
        for (size_t i = 0; i < count; i++)
            keep[i] = f->leaks.holder[i] < SA_LEAK_UNKNOWN;
        if (count)
            memcpy(live, f->profile.live.samples, count * sizeof(*live));
        sa_outside_profile_filter(&f->profile, keep);
        sa_outside_profile_tell(&f->profile);
        if (file)
            sa_output_profile(&f->profile.profile, file, e);
        else if (sa_leak_report(&f->leaks, &f->profile.profile, live, f->stopped_ms, stdout) != 0)
            sa_error_set(e, SA_EXIT_FAILED, "there is no memory for the report");
    } else {
        sa_error_set(e, SA_EXIT_FAILED, "there is no memory for the report");
    }
    free(keep);
    free(live);
}

static int run(const void *options, const struct sa_operands *operands, struct sa_error *e)
{
    const struct options *o = options;
    struct found *f;

    f = calloc(1, sizeof(*f));
    if (!f) {
        sa_error_set(e, SA_EXIT_FAILED, "there is no memory");
        return (int)e->code;
    }
    f->leaks.scan.pages = -1;
    stop_and_find(f, operands->sources[0], e);
    if (!e->code && sa_leaks_find_holders(&f->leaks, e)) {
        sa_leaks_forget_heap(&f->leaks);
        put(f, o->file, e);
    }
    sa_leaks_close(&f->leaks);
    sa_outside_profile_free(&f->profile);
    sa_threads_free(&f->threads);
    sa_reading_close(&f->reading);
    free(f);
    return (int)e->code;
}

static const struct sa_command_option table[] = {
    {'o', "output", "FILE",
     "write the lost blocks as a profile instead: .pb.gz, .pb\n"
     "(profile.proto, for pprof), .txt (a table), .collapsed, .folded\n",
     offsetof(struct options, file), sa_take_output},
    SA_OPTION_SYSROOT,
};

const struct sa_command sa_command_leaks = {
    .name = "leaks",
    .what = "show which blocks nothing in a process or a core points to any more",
    .synopsis = "[-o FILE] PID|CORE\n",
    .text =
        "Shows the sampled blocks that the program cannot reach any more, by call stack, with\n"
        "estimates of all such blocks and their confidence intervals. A process is stopped while\n"
        "its memory is searched for pointers. It needs no preparation.\n",
    SA_COMMAND_OPTIONS(table, struct options),
    .sources = 1,
    .first = 1,
    .last = 1,
    .operands = "name one process or core",
    .run = run,
};
