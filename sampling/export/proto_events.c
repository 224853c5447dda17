/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts events into a file of profile.proto (proto_file.h): one sample each, in order, with
 * tcmalloc's labels. The sample of an allocation has its stack and counts as allocated. That of a
 * free has the stack of the free and counts as deallocated.
 *
 * An event stands for 1/p blocks, which is no whole number. What rounding leaves over is carried to
 * the next event of its kind, so that the sums are those of the estimates.
 */
#include "sampling/export/proto_file.h"

/* The estimate of all events so far, and what was put of it. */
struct carry {
    double sum;
    uint64_t put;
};

static uint64_t next_of(struct carry *c, double weight)
{
    uint64_t all, part;

    c->sum += weight;
    all = c->sum < 1e18 ? (uint64_t)(c->sum + 0.5) : (uint64_t)1e18;
    part = all - c->put;
    c->put = all;
    return part;
}

/* A label whose number may be 0. Readers know it by its unit. */
static void put_number(struct sa_proto *sample, unsigned key, uint64_t number, unsigned unit)
{
    struct sa_proto m;

    m.used = 0;
    sa_proto_number(&m, LABEL_KEY, key);
    sa_proto_number(&m, LABEL_NUMBER, number);
    sa_proto_number(&m, LABEL_UNIT, unit);
    sa_proto_message(sample, SAMPLE_LABEL, &m);
}

void sa_proto_file_events(struct sa_proto_file *w)
{
    static const uint8_t kinds[] = {[SALLOC_KIND_MALLOC] = S_MALLOC,
                                    [SALLOC_KIND_NEW] = S_NEW,
                                    [SALLOC_KIND_ALIGNED] = S_ALIGNED};
    const struct sa_event_ring *ring = &w->profile->events;
    struct carry carries[4] = {{0, 0}};

    for (size_t i = 0; i < sa_event_ring_count(ring); i++) {
        const struct sa_ring_event *e = sa_event_ring_get(ring, i);
        int freed = e->free_time_ns != 0, cpu = freed ? e->free_cpu : e->cpu;
        uint64_t values[SA_PROTO_TYPES_MAX] = {0};
        struct sa_proto m;

        values[2 * freed] = next_of(&carries[2 * freed], 1 / e->p);
        values[2 * freed + 1] = next_of(&carries[2 * freed + 1], (double)e->allocated / e->p);
        sa_proto_begin_sample(w, &m, freed ? e->free_stack : e->stack, values);
        sa_proto_label(&m, S_HANDLE, e->handle, S_COUNT);
        sa_proto_label(&m, S_ALLOCATION_TIME, e->time_ns + (uint64_t)w->profile->clock_ns,
                       S_NANOSECONDS);
        if (freed)
            sa_proto_label(&m, S_DEALLOCATION_TIME,
                           e->free_time_ns + (uint64_t)w->profile->clock_ns, S_NANOSECONDS);
        put_number(&m, S_REQUESTED_SIZE, e->requested, S_BYTES);
        sa_proto_label(&m, S_BYTES, e->allocated, S_BYTES);
        sa_proto_label(&m, S_ALIGNMENT, e->align, S_BYTES);
        sa_proto_word(&m, S_ALLOCATION_TYPE, kinds[e->kind]);
        sa_proto_add_thread(w, &m, freed ? e->free_tid : e->tid);
        if (cpu >= 0)
            put_number(&m, S_CPU_ID, (uint64_t)cpu, S_COUNT);
        sa_proto_file_message(w, PROFILE_SAMPLE, &m);
    }
}
