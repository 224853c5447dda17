/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes an EVENTS profile in the Trace Event Format, which Perfetto (ui.perfetto.dev) and
 * chrome://tracing open: an instant event for each allocation and free, on the track of its thread,
 * and a counter of the bytes that the trace saw allocated and not freed, which is an estimate.
 *
 * Times are microseconds since the start of the recording, because readers keep them as doubles.
 */
#include "sampling/export/write.h"

#include "alloc/os/sys.h"
#include "sampling/record/thread_name.h"
#include "sampling/symbolize/frames.h"

#include <errno.h>

#define THREADS 256 /* names of threads that the writer remembers */

struct trace {
    const struct sa_profile *profile;
    struct sa_sink *out;
    struct sa_frames frames;
    int pid;
    bool any;                  /* an event was put */
    double live;               /* estimated bytes allocated and not freed in the trace */
    uint32_t threads[THREADS]; /* named already, by tid % THREADS */
};

/* Puts a string with quotes. Names are valid UTF-8 without control characters. */
static void put_string(struct sa_sink *out, const char *s)
{
    sa_sink_string(out, "\"");
    for (; *s; s++) {
        if (*s == '"' || *s == '\\')
            sa_sink_string(out, "\\");
        sa_sink_put(out, s, 1);
    }
    sa_sink_string(out, "\"");
}

static void begin_event(struct trace *t)
{
    sa_sink_string(t->out, t->any ? ",\n" : "\n");
    t->any = true;
}

static void put_thread(struct trace *t, uint32_t tid)
{
    char name[SA_THREAD_NAME_BYTES];

    if (!tid || t->threads[tid % THREADS] == tid)
        return;
    t->threads[tid % THREADS] = tid;
    sa_thread_name_in(t->profile->origin, tid, name);
    begin_event(t);
    sa_sink_text(t->out,
                 "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%d,\"tid\":%u,"
                 "\"args\":{\"name\":",
                 t->pid, tid);
    put_string(t->out, name);
    sa_sink_string(t->out, "}}");
}

static void put_stack(struct trace *t, const struct sa_stack *stack)
{
    const struct sa_stack *from = stack ? stack : &sa_stack_unknown;

    sa_sink_string(t->out, "\"stack\":[");
    for (size_t i = 0; i < sa_frames_depth(from); i++) {
        sa_sink_string(t->out, i ? "," : "");
        put_string(t->out, sa_frames_name(&t->frames, sa_frames_pc(from, i)));
    }
    sa_sink_string(t->out, "]");
}

static void put_time(struct trace *t, int64_t ns)
{
    int64_t since = ns - t->profile->time_ns;
    uint64_t size = since < 0 ? -(uint64_t)since : (uint64_t)since;

    sa_sink_text(t->out, "\"ts\":%s%llu.%03u,\"pid\":%d", since < 0 ? "-" : "",
                 (unsigned long long)(size / 1000), (unsigned)(size % 1000), t->pid);
}

static void put_event(struct trace *t, size_t i)
{
    static const char names[][16] = {[SALLOC_KIND_MALLOC] = "malloc",
                                     [SALLOC_KIND_NEW] = "new",
                                     [SALLOC_KIND_ALIGNED] = "aligned malloc"};
    struct salloc_sample_event e;
    const struct sa_ring_event *ring = sa_event_ring_get(&t->profile->events, i);
    bool freed;

    sa_profile_event(t->profile, i, &e);
    freed = e.event == SALLOC_EVENT_FREED;
    put_thread(t, freed ? e.free_thread : e.thread);
    begin_event(t);
    sa_sink_text(t->out, "{\"ph\":\"i\",\"s\":\"t\",\"cat\":\"%s\",\"name\":\"%s\",",
                 freed ? "free" : "alloc", freed ? "free" : names[e.kind]);
    put_time(t, freed ? e.free_time_ns : e.time_ns);
    sa_sink_text(t->out,
                 ",\"tid\":%u,\"args\":{\"alloc_handle\":%llu,\"address\":\"0x%llx\","
                 "\"requested_size\":%zu,\"allocated_size\":%zu,\"weight\":%.3F,\"cpu_id\":%d,",
                 freed ? e.free_thread : e.thread, (unsigned long long)e.handle,
                 (unsigned long long)ring->address, e.requested_size, e.allocated_size, e.weight,
                 freed ? e.free_cpu : e.cpu);
    if (freed)
        sa_sink_text(t->out, "\"lifetime_ns\":%llu,",
                     (unsigned long long)(ring->free_time_ns - ring->time_ns));
    put_stack(t, freed ? ring->free_stack : ring->stack);
    sa_sink_string(t->out, "}}");
    t->live += (freed ? -1 : 1) * e.weight * (double)e.allocated_size;
    begin_event(t);
    sa_sink_string(t->out, "{\"ph\":\"C\",\"name\":\"allocated minus freed (estimate)\",");
    put_time(t, freed ? e.free_time_ns : e.time_ns);
    sa_sink_text(t->out, ",\"args\":{\"bytes\":%s%.0F}}", t->live < 0 ? "-" : "",
                 t->live < 0 ? -t->live : t->live);
}

int sa_write_trace(const struct sa_profile *profile, struct sa_sink *out)
{
    struct trace t = {.profile = profile, .out = out};
    int failed;

    if (profile->type != SALLOC_PROFILE_EVENTS)
        return -EINVAL;
    failed = sa_frames_collect(profile, &t.frames);
    if (failed)
        return failed;
    t.pid = profile->origin ? profile->origin->pid : (int)sa_sys_pid();
    sa_sink_text(out,
                 "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"program\":\"salloc " SALLOC_VERSION
                 "\",\"start_time_ns\":\"%lld\",\"duration_ns\":\"%lld\","
                 "\"sample_interval\":\"%lld\",\"events_lost\":\"%llu\"},\"traceEvents\":[",
                 (long long)profile->time_ns, (long long)profile->duration_ns,
                 (long long)profile->interval,
                 (unsigned long long)sa_event_ring_lost(&profile->events));
    for (size_t i = 0; i < sa_event_ring_count(&profile->events); i++)
        put_event(&t, i);
    sa_sink_string(out, "\n]}\n");
    sa_frames_free(&t.frames);
    return 0;
}
