/* SPDX-License-Identifier: Apache-2.0 */
/* sallocctl trace: the events of a process or a core, one by one. */
#include "tool/command/command.h"

#include "sampling/export/write.h"
#include "tool/base/units.h"
#include "tool/reading/event_trace.h"
#include "tool/reading/output.h"
#include "tool/target/control_client.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern const struct sa_command sa_command_trace;

#define SECONDS     30
#define RING_BYTES  (16ul << 20)  /* of a trace that the process starts for this command, */
#define SECONDS_MAX 3600          /* which lasts no longer */
#define SPARE       5             /* seconds by which it ends later */
#define BYTES       (256ul << 20) /* of events that are kept */

struct options {
    const char *file;
    double seconds;
    size_t bytes;
    int all;
};

static volatile int interrupted;

static void interrupt(int number)
{
    (void)number;
    interrupted = 1;
}

/* A first Ctrl-C ends the trace, and the file is written; a second one ends the command. */
static void catch_interrupts(void)
{
    struct sigaction action = {.sa_handler = interrupt, .sa_flags = (int)SA_RESETHAND};
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction old;

    for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
        if (sigaction(numbers[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
            sigaction(numbers[i], &action, NULL);
}

static const char *take_bytes(const char *argument, void *field)
{
    uint64_t bytes;

    if (!sa_units_bytes(argument, &bytes))
        return "it needs a number of bytes, as 64m";
    if (bytes < 4096 || bytes > SA_EVENT_RING_MAX)
        return "it is 4k to 16g";
    *(size_t *)field = bytes;
    return NULL;
}

/* Says what the file cannot: that the trace ended early, and what is not in it. */
static void tell(const struct sa_event_trace *trace, const struct sa_profile *profile, bool live)
{
    uint64_t replaced = sa_event_ring_lost(&profile->events);

    if (trace->ended && live)
        fprintf(stderr, "sallocctl: the process ended, or it stopped its event trace\n");
    if (trace->lost)
        fprintf(stderr,
                "sallocctl: %" PRIu64 " events are lost: the process replaced them before they "
                "were read\n",
                trace->lost);
    if (replaced)
        fprintf(stderr, "sallocctl: %" PRIu64 " older events did not fit; --bytes has room\n",
                replaced);
}

/* Has a process that records no events start, if it has a control socket. */
static bool start(pid_t pid, double seconds)
{
    struct sa_error e = {SA_EXIT_DONE, ""};
    char answer[SA_CONTROL_LINE];
    struct sa_control control;
    bool fine;

    fine = sa_control_open(&control, pid, &e) &&
           sa_control_ask(&control, answer, &e, "trace start %lu %.0f", RING_BYTES,
                          ceil(fmin(seconds, SECONDS_MAX - SPARE)) + SPARE);
    sa_control_close(&control);
    return fine;
}

static void stop(pid_t pid)
{
    struct sa_error e = {SA_EXIT_DONE, ""};
    char answer[SA_CONTROL_LINE];
    struct sa_control control;

    if (sa_control_open(&control, pid, &e))
        sa_control_ask(&control, answer, &e, "trace stop");
    sa_control_close(&control);
}

/* Opens the trace of a target, or has the process start one. */
static bool open_trace(struct sa_event_trace *t, struct sa_reading *r, const struct options *o,
                       bool *ret_ours, struct sa_error *e)
{
    *ret_ours = false;
    if (sa_event_trace_open(t, r, o->all || !r->target.live, o->bytes, e))
        return true;
    if (e->code != SA_EXIT_FAILED || !r->target.live || !start(r->target.pid, o->seconds))
        return false;
    *ret_ours = true;
    *e = (struct sa_error){SA_EXIT_DONE, ""};
    sa_event_trace_close(t);
    return sa_event_trace_open(t, r, true, o->bytes, e);
}

static void trace(struct sa_reading *r, const struct options *o, struct sa_error *e)
{
    struct sa_event_trace t;
    struct sa_outside_profile p;
    bool ours;

    if (open_trace(&t, r, o, &ours, e)) {
        if (r->target.live)
            sa_event_trace_follow(&t, o->seconds, &interrupted, e);
        else
            sa_event_trace_copy(&t, e);
        if (!e->code) {
            sa_event_trace_profile(&t, &p);
            tell(&t, &p.profile, r->target.live);
            sa_output_profile(&p.profile, o->file, e);
            sa_outside_profile_free(&p);
        }
    }
    sa_event_trace_close(&t);
    if (ours)
        stop(r->target.pid);
}

static int run(const void *options, const struct sa_operands *operands, struct sa_error *e)
{
    const struct options *o = options;
    struct sa_reading r;

    if (!o->file && isatty(STDOUT_FILENO))
        return sa_command_misused(&sa_command_trace,
                                  "a trace is no text: name a file with -o, or use a pipe");
    catch_interrupts();
    if (sa_reading_open(&r, operands->sources[0], e)) {
        trace(&r, o, e);
        sa_reading_close(&r);
    }
    return (int)e->code;
}

static void set(void *options)
{
    *(struct options *)options = (struct options){.seconds = SECONDS, .bytes = BYTES};
}

static const struct sa_command_option table[] = {
    {'o', "output", "FILE",
     "the format follows from the ending: .json (for Perfetto), .pb.gz, .pb\n"
     "(a sample for each event); .txt, .collapsed, .folded add them up.\n"
     "Without it a .pb.gz goes to stdout.\n",
     offsetof(struct options, file), sa_take_output},
    {'s', "seconds", "TIME", "how long, 30 s without it; Ctrl-C ends it, and writes the file\n",
     offsetof(struct options, seconds), sa_take_seconds},
    {'a', "all", NULL, "also the events that the process has recorded before\n",
     offsetof(struct options, all), sa_take_flag},
    {0, "bytes", "N",
     "memory of this command for events, as 64m: 120 bytes for each; it\n"
     "keeps the last ones; 256m without it\n",
     offsetof(struct options, bytes), take_bytes},
    SA_OPTION_SYSROOT,
};

const struct sa_command sa_command_trace = {
    .name = "trace",
    .what = "write each sampled allocation and free of a process or a core",
    .synopsis = "[OPTION...] PID|CORE\n",
    .text = "Writes the sampled allocations and frees of a process one by one, in order: time,\n"
            "thread, CPU, sizes, weight and stack. The process records them in a ring\n"
            "(doc/events.md): by the option profile_type:events, or by a call of\n"
            "salloc_start_event_trace. With control:on, this command has it start and stop. It is\n"
            "not stopped. Of a core, the ring as it was is written.\n",
    SA_COMMAND_OPTIONS(table, struct options),
    .sources = 1,
    .first = 1,
    .last = 1,
    .operands = "name one process or core",
    .set = set,
    .run = run,
};
