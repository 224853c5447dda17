/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading the ring of events of a target; see event_trace.h. sampling/profile/event_ring.h has the
 * argument why what is kept is whole: `written` is read before the records, `begun` after them, and
 * after their stacks.
 *
 * Nothing that is read is trusted: numbers of events may go backwards, and places lie anywhere.
 */
#include "tool/reading/event_trace.h"

#include "alloc/base/page.h"
#include "sampling/record/recording.h"
#include "tool/base/time.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CHUNK      1024 /* records that are read at a time */
#define STRIDE_MAX 4096
#define PAUSE_MIN  1000000 /* ns between two looks at a ring that fills quickly, */
#define PAUSE_MAX  250000000
#define GRACE      1000000000

/* struct sa_event_ring, as in the target. */
struct ring {
    uint64_t records, cap, begun, written;
};

static const struct sa_own_field ring_fields[] = {
    SA_OWN_FIELD(struct ring, records),
    SA_OWN_FIELD(struct ring, cap),
    SA_OWN_FIELD(struct ring, begun),
    SA_OWN_FIELD(struct ring, written),
};

static const struct sa_own_field record_fields[] = {
    SA_OWN_FIELD(struct sa_ring_event, handle),    SA_OWN_FIELD(struct sa_ring_event, time_ns),
    SA_OWN_FIELD(struct sa_ring_event, stack),     SA_OWN_FIELD(struct sa_ring_event, free_time_ns),
    SA_OWN_FIELD(struct sa_ring_event, p),         SA_OWN_FIELD(struct sa_ring_event, free_stack),
    SA_OWN_FIELD(struct sa_ring_event, interval),  SA_OWN_FIELD(struct sa_ring_event, address),
    SA_OWN_FIELD(struct sa_ring_event, requested), SA_OWN_FIELD(struct sa_ring_event, allocated),
    SA_OWN_FIELD(struct sa_ring_event, align),     SA_OWN_FIELD(struct sa_ring_event, tid),
    SA_OWN_FIELD(struct sa_ring_event, free_tid),  SA_OWN_FIELD(struct sa_ring_event, cpu),
    SA_OWN_FIELD(struct sa_ring_event, free_cpu),  SA_OWN_FIELD(struct sa_ring_event, kind),
    SA_OWN_FIELD(struct sa_ring_event, guarded),   SA_OWN_FIELD(struct sa_ring_event, offset),
    SA_OWN_FIELD(struct sa_ring_event, hits),
};

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

/* Finds the first recording of events. False: there is none, or it cannot be read. */
static bool find_slot(struct sa_event_trace *t, struct sa_error *e)
{
    const struct sa_table *table = &t->r->table;
    uint64_t slots = sa_table_variable(table, "recordings", e);
    uint64_t count = sa_table_constant(table, "SA_RECORDINGS", e);
    uint64_t bytes = sa_table_constant(table, "struct slot", e), type, runs;
    struct sa_field recording = sa_table_field(table, "struct slot", "recording", e);
    struct sa_field kind = sa_table_field(table, "struct sa_recording", "type", e);

    t->runs = sa_table_field(table, "struct slot", "runs", e);
    t->generation = sa_table_field(table, "struct slot", "generation", e);
    if (e->code)
        return false;
    kind.offset += recording.offset;
    for (uint64_t i = 0; i < count && i < 1024; i++) {
        t->slot = slots + i * bytes;
        if (sa_field_read(&t->r->target, t->slot, t->runs, &runs) && runs &&
            sa_field_read(&t->r->target, t->slot, kind, &type) && type == SALLOC_PROFILE_EVENTS &&
            sa_field_read(&t->r->target, t->slot, t->generation, &t->token))
            return true;
    }
    sa_error_set(e, SA_EXIT_FAILED,
                 "it records no events: start it with SALLOC_CONF=control:on, or with "
                 "profile:FILE,profile_type:events, or let it call salloc_start_event_trace()");
    return false;
}

/* False: the trace that was found is no longer there. */
static bool still_runs(struct sa_event_trace *t)
{
    uint64_t runs, token;

    return sa_field_read(&t->r->target, t->slot, t->runs, &runs) && runs &&
           sa_field_read(&t->r->target, t->slot, t->generation, &token) && token == t->token;
}

static bool read_ring(struct sa_event_trace *t, struct ring *ret)
{
    if (!sa_plan_read(&t->r->target, &t->ring, t->slot + t->events, ret) || !ret->cap ||
        ret->cap > SA_EVENT_RING_MAX / t->stride)
        return false;
    /* One reading may take `begun` before an event, and `written` behind it. */
    if (ret->written > ret->begun)
        ret->written = ret->begun;
    return true;
}

static void read_times(struct sa_event_trace *t, struct sa_error *e)
{
    const struct sa_table *table = &t->r->table;
    struct sa_field in = sa_table_field(table, "struct slot", "recording", e);
    struct sa_field start = sa_table_field(table, "struct sa_recording", "start_ns", e);
    struct sa_field clock = sa_table_field(table, "struct sa_recording", "start_monotonic_ns", e);
    uint64_t since_1970 = 0, monotonic = 0;

    start.offset += in.offset;
    clock.offset += in.offset;
    if (!e->code && sa_field_read(&t->r->target, t->slot, start, &since_1970) &&
        sa_field_read(&t->r->target, t->slot, clock, &monotonic)) {
        t->start_ns = (int64_t)since_1970;
        t->clock_ns = (int64_t)(since_1970 - monotonic);
    }
}

bool sa_event_trace_open(struct sa_event_trace *t, struct sa_reading *r, bool all, size_t bytes,
                         struct sa_error *e)
{
    const struct sa_table *table = &r->table;
    struct ring ring;

    *t = (struct sa_event_trace){.r = r};
    if (!find_slot(t, e) ||
        !sa_plan_make(table, "struct sa_event_ring", ring_fields, COUNT(ring_fields), &t->ring,
                      e) ||
        !sa_plan_make(table, "struct sa_ring_event", record_fields, COUNT(record_fields),
                      &t->record, e))
        return false;
    t->stride = sa_table_constant(table, "struct sa_ring_event", e);
    t->events = sa_table_field(table, "struct slot", "recording", e).offset +
                sa_table_field(table, "struct sa_recording", "events", e).offset;
    read_times(t, e);
    if (!e->code && (t->stride < t->record.span || t->stride > STRIDE_MAX))
        sa_error_set(e, SA_EXIT_VERSION, "events of its library are not what this sallocctl knows");
    if (e->code)
        return false;
    if (!read_ring(t, &ring)) {
        sa_error_set(e, SA_EXIT_DAMAGED, "its event trace makes no sense");
        return false;
    }
    t->cap = ring.cap;
    t->next = !all ? ring.written : ring.written > ring.cap ? ring.written - ring.cap : 0;
    t->lost = all ? t->next : 0;
    t->bytes = malloc(CHUNK * t->stride);
    t->copies = malloc(CHUNK * sizeof(*t->copies));
    if (!sa_reading_without_samples(r, SALLOC_PROFILE_EVENTS, &t->profile, e))
        return false;
    if (!t->bytes || !t->copies || !sa_event_ring_open(&t->own, bytes))
        sa_error_set(e, SA_EXIT_FAILED, "there is no memory for the events");
    return !e->code;
}

static bool is_sound(const struct sa_ring_event *event)
{
    return sa_live_is_sound(event->p, event->interval, event->offset, event->hits, event->allocated,
                            event->requested, event->align, event->kind) &&
           event->handle && event->handle < 1ull << 60 && event->time_ns < 1ull << 62 &&
           event->free_time_ns < 1ull << 62;
}

/* Puts our stacks in place of the target's. False: the event makes no sense, or has no stack that
 * is whole. */
static bool take_stacks(struct sa_event_trace *t, struct sa_ring_event *event)
{
    uint64_t of_free = (uintptr_t)event->free_stack;

    event->stack = sa_stacks_get(&t->r->stacks, (uintptr_t)event->stack);
    event->free_stack = of_free ? sa_stacks_get(&t->r->stacks, of_free) : NULL;
    return event->stack && is_sound(event);
}

/* Copies up to CHUNK events, from number t->next on, which lie behind one another. False: the trace
 * is gone. */
static bool copy_chunk(struct sa_event_trace *t, const struct ring *ring, uint64_t count)
{
    struct ring after;
    uint64_t at = t->next % ring->cap, first = t->next;
    bool whole[CHUNK];

    if (!sa_target_read(&t->r->target, ring->records + at * t->stride, t->bytes, count * t->stride))
        return false;
    for (uint64_t i = 0; i < count; i++) {
        memset(&t->copies[i], 0, sizeof(t->copies[i]));
        sa_plan_apply(&t->record, (char *)t->bytes + i * t->stride, &t->copies[i]);
        whole[i] = take_stacks(t, &t->copies[i]);
    }
    if (!read_ring(t, &after) || !still_runs(t))
        return false;
    t->next += count;
    for (uint64_t i = 0; i < count; i++) {
        if (whole[i] && after.begun <= first + i + ring->cap)
            sa_event_ring_add(&t->own, &t->copies[i]);
        else
            t->lost++;
    }
    return true;
}

/* The time is over, or the user ends it. */
static bool is_over(const struct sa_event_trace *t)
{
    return (t->stop && *t->stop) || (t->end_ns && sa_time_ns(CLOCK_MONOTONIC) >= t->end_ns);
}

uint64_t sa_event_trace_copy(struct sa_event_trace *t, struct sa_error *e)
{
    struct ring ring;
    uint64_t before = t->next, count;

    if (t->ended)
        return 0;
    /* An address may be that of another stack than at the last time. */
    sa_stacks_close(&t->r->stacks);
    if (!sa_stacks_open(&t->r->stacks, &t->r->target, &t->r->table, e))
        return 0;
    t->ended = !read_ring(t, &ring) || !still_runs(t) || ring.cap != t->cap;
    if (t->ended || ring.written < t->next)
        return 0;
    if (ring.written - t->next > ring.cap) {
        t->lost += ring.written - ring.cap - t->next;
        t->next = ring.written - ring.cap;
    }
    while (!t->ended && t->next < ring.written && !is_over(t)) {
        count = ring.written - t->next;
        count = count < CHUNK ? count : CHUNK;
        if (count > ring.cap - t->next % ring.cap)
            count = ring.cap - t->next % ring.cap;
        t->ended = !copy_chunk(t, &ring, count);
    }
    return t->next - before;
}

/* Looks again before an eighth of the ring is new, as far as the last looks tell. */
void sa_event_trace_follow(struct sa_event_trace *t, double seconds, const volatile int *stop,
                           struct sa_error *e)
{
    int64_t end = sa_time_ns(CLOCK_MONOTONIC) + (int64_t)(seconds * 1e9), pause = PAUSE_MIN;

    /* What is left in the ring at the end may take as long again, and no longer. */
    t->stop = stop;
    t->end_ns = end + (int64_t)(seconds * 1e9) + GRACE;
    while (!t->ended && !*stop && !e->code && sa_time_ns(CLOCK_MONOTONIC) < end) {
        uint64_t copied = sa_event_trace_copy(t, e);
        int64_t left = end - sa_time_ns(CLOCK_MONOTONIC);
        struct timespec wait;

        if (copied > t->cap / 8)
            pause = pause / 2 > PAUSE_MIN ? pause / 2 : PAUSE_MIN;
        else if (copied < t->cap / 32)
            pause = pause * 2 < PAUSE_MAX ? pause * 2 : PAUSE_MAX;
        if (left > pause)
            left = pause;
        wait = (struct timespec){left / 1000000000, left % 1000000000};
        if (left > 0)
            nanosleep(&wait, NULL);
    }
    sa_event_trace_copy(t, e);
}

void sa_event_trace_profile(struct sa_event_trace *t, struct sa_outside_profile *ret)
{
    struct sa_profile *profile = &ret->profile;
    size_t count = sa_event_ring_count(&t->own);
    const struct sa_ring_event *last = count ? sa_event_ring_get(&t->own, count - 1) : NULL;

    *ret = t->profile;
    profile->origin = &ret->origin;
    t->profile = (struct sa_outside_profile){0};
    profile->clock_ns = t->clock_ns;
    profile->time_ns =
        count ? (int64_t)sa_event_ring_get(&t->own, 0)->time_ns + t->clock_ns : t->start_ns;
    if (last)
        profile->duration_ns = (int64_t)(last->free_time_ns ? last->free_time_ns : last->time_ns) +
                               t->clock_ns - profile->time_ns;
    if (profile->duration_ns < 0)
        profile->duration_ns = 0;
    profile->events = t->own;
    for (size_t i = 0; i < count; i++)
        sa_event_add_up(&ret->rows, sa_event_ring_get(&t->own, i), false);
    profile->buckets = ret->rows.buckets;
    profile->bucket_count = ret->rows.count;
    profile->samples_dropped = t->lost;
    t->own = (struct sa_event_ring){0};
}

void sa_event_trace_close(struct sa_event_trace *t)
{
    sa_event_ring_close(&t->own);
    sa_outside_profile_free(&t->profile);
    free(t->bytes);
    free(t->copies);
}
