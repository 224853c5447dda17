/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adds the events of a trace up; see flame_events.h. A row is a stack, a size, a probability and a
 * thread. Where there are more events than moments, a moment is the one of so many events after
 * which most was in use, so that no peak is lost.
 */
#include "tool/page/flame_events.h"

#include "sampling/estimate/rates.h"
#include "tool/base/intern.h"
#include "tool/file/file_interval.h"

#include <stdlib.h>
#include <string.h>

#define ENTRIES_MAX (1u << 23) /* of all moments */
#define MOMENTS_MIN 16

/* An event that changes what is in use. */
struct event {
    uint32_t row;
    int change; /* 1: an allocation, -1: a free */
    int64_t time_ns;
};

struct maker {
    const struct sa_profile_file *file;
    struct sa_flame_events *to;
    struct sa_intern keys, handles; /* of rows, and of blocks */
    uint32_t *row_of;               /* of each block */
    uint32_t *first;                /* of each row: its first event's sample */
    struct event *events;
    size_t event_count;
    uint32_t *live; /* of each row */
    uint32_t bytes; /* index of allocated_space */
};

bool sa_flame_is_events(const struct sa_profile_file *file)
{
    return file->sample_count && sa_file_metric(file, "allocated_space") != SA_FILE_NONE &&
           sa_file_number(file, &file->samples[0], "alloc_handle") > 0;
}

/* The probability with which a block was sampled: that of the period, unless the number of bytes,
 * which is rounded, tells another one. */
static double probability_of(const struct sa_profile_file *f, double size, double bytes)
{
    double usual = sa_rate_probability((double)f->period, size), told;

    if (!(size > 0) || !(bytes > 0))
        return usual;
    told = size / bytes;
    if (told > usual * (1 - 2 / bytes) && told < usual * (1 + 2 / bytes))
        return usual;
    return told > SA_RATE_CERTAIN ? 1 : told;
}

/* The number of an allocation's row. */
static uint32_t row_of(struct maker *m, uint32_t sample)
{
    const struct sa_profile_file *f = m->file;
    const struct sa_file_sample *s = &f->samples[sample];
    struct key {
        double size, p;
        const char *thread;
        uint32_t frames[1024];
    } key = {.size = (double)sa_file_number(f, s, "bytes"), .thread = sa_file_text(f, s, "thread")};
    uint32_t depth = s->depth < 1024 ? s->depth : 1024, number;

    key.p = probability_of(f, key.size, (double)f->values[s->value + m->bytes]);
    memcpy(key.frames, f->frames + s->frame, depth * sizeof(*key.frames));
    number = sa_intern(&m->keys, &key, offsetof(struct key, frames) + depth * sizeof(*key.frames));
    if (number != SA_INTERN_NONE && number == m->to->moments.row_count) {
        m->first[number] = sample;
        m->to->moments.p[number] = key.p;
        m->to->moments.row_count++;
    }
    return number;
}

/* Lists the events. A free of a block from before the trace changes nothing that it has seen.
 * False: there is no memory. */
static bool list_events(struct maker *m)
{
    const struct sa_profile_file *f = m->file;

    for (uint32_t i = 0; i < f->sample_count; i++) {
        const struct sa_file_sample *s = &f->samples[i];
        int64_t handle = sa_file_number(f, s, "alloc_handle");
        int64_t freed = sa_file_number(f, s, "deallocation_time");
        size_t known = m->handles.count;
        uint32_t block = sa_intern(&m->handles, &handle, sizeof(handle)), row;

        if (block == SA_INTERN_NONE)
            return false;
        if (freed && block < known && m->row_of[block] != SA_FILE_NONE) {
            m->events[m->event_count++] = (struct event){m->row_of[block], -1, freed};
            m->row_of[block] = SA_FILE_NONE;
        }
        if (freed || block < known) {
            if (block == known)
                m->row_of[block] = SA_FILE_NONE;
            continue;
        }
        row = m->row_of[block] = row_of(m, i);
        if (row == SA_INTERN_NONE)
            return false;
        m->events[m->event_count++] =
            (struct event){row, 1, sa_file_number(f, s, "allocation_time")};
    }
    return true;
}

static double bytes_of(const struct maker *m, uint32_t row)
{
    const struct sa_file_sample *s = &m->file->samples[m->first[row]];
    double p = m->to->moments.p[row];

    return p > 0 ? (double)sa_file_number(m->file, s, "bytes") / p : 0;
}

/* Adds what is in use now as a moment. */
static bool add_moment(struct maker *m, int64_t time_ns, struct sa_unseen unseen)
{
    struct sa_moments *moments = &m->to->moments;
    struct sa_moment *at = &moments->of[moments->count];
    size_t count = 0;

    for (size_t i = 0; i < moments->row_count; i++)
        count += m->live[i] > 0;
    *at = (struct sa_moment){.time_ns = time_ns, .unseen = unseen};
    at->entries = calloc(count + 1, sizeof(*at->entries));
    for (uint32_t i = 0; at->entries && i < moments->row_count; i++)
        if (m->live[i])
            at->entries[at->count++] = (struct sa_moment_entry){i, m->live[i]};
    moments->count += at->entries != NULL;
    moments->entries += count;
    return at->entries != NULL;
}

/* Of the events [from, to), the one after which most is in use; the last one, of the last ones. */
static size_t highest(const struct maker *m, size_t from, size_t to)
{
    double bytes = 0, most = 0;
    size_t best = from;

    if (to == m->event_count)
        return to - 1;
    for (size_t i = from; i < to; i++) {
        bytes += m->events[i].change * bytes_of(m, m->events[i].row);
        if (i == from || bytes > most) {
            most = bytes;
            best = i;
        }
    }
    return best;
}

static bool add_moments(struct maker *m)
{
    struct sa_unseen unseen = sa_file_unseen(m->file);
    size_t most = ENTRIES_MAX / (m->to->moments.row_count + 1), from = 0;
    size_t count = most < MOMENTS_MIN       ? MOMENTS_MIN
                   : most < SA_MOMENTS_ROOM ? most
                                            : SA_MOMENTS_ROOM;

    if (count > m->event_count)
        count = m->event_count;
    for (size_t i = 0; i < count; i++) {
        size_t to = m->event_count * (i + 1) / count, at = highest(m, from, to);

        for (; from <= at; from++)
            m->live[m->events[from].row] += (uint32_t)m->events[from].change;
        if (!add_moment(m, m->events[at].time_ns, unseen))
            return false;
        for (; from < to; from++)
            m->live[m->events[from].row] += (uint32_t)m->events[from].change;
    }
    return true;
}

/* The rows as samples of a profile, each with one sampled block. */
static bool make_rows(struct maker *m)
{
    const struct sa_profile_file *f = m->file;
    struct sa_profile_file *rows = &m->to->rows;
    size_t count = m->to->moments.row_count;

    *rows = *f;
    m->to->types[0] = (struct sa_file_type){"inuse_objects", "count"};
    m->to->types[1] = (struct sa_file_type){"inuse_space", "bytes"};
    rows->types = m->to->types;
    rows->type_count = 2;
    rows->default_type = "inuse_space";
    rows->sample_count = (uint32_t)count;
    rows->value_count = (uint32_t)count * 2;
    rows->samples = calloc(count + 1, sizeof(*rows->samples));
    rows->values = calloc(2 * count + 2, sizeof(*rows->values));
    for (uint32_t i = 0; rows->samples && rows->values && i < count; i++) {
        rows->samples[i] = f->samples[m->first[i]];
        rows->samples[i].value = 2 * i;
        rows->samples[i].sums = SA_FILE_NONE;
        rows->values[2 * i] = rows->values[2 * i + 1] = 1;
    }
    return rows->samples && rows->values;
}

bool sa_flame_events_make(struct sa_flame_events *t, const struct sa_profile_file *file,
                          struct sa_error *e)
{
    size_t count = (size_t)file->sample_count + 1;
    struct maker m = {.file = file,
                      .to = t,
                      .row_of = calloc(count, sizeof(*m.row_of)),
                      .first = calloc(count, sizeof(*m.first)),
                      .events = calloc(count, sizeof(*m.events)),
                      .live = calloc(count, sizeof(*m.live)),
                      .bytes = sa_file_metric(file, "allocated_space")};
    bool fine;

    memset(t, 0, sizeof(*t));
    t->moments.p = calloc(count, sizeof(*t->moments.p));
    fine = m.row_of && m.first && m.events && m.live && t->moments.p && list_events(&m) &&
           add_moments(&m) && make_rows(&m);
    sa_intern_free(&m.keys);
    sa_intern_free(&m.handles);
    free(m.row_of);
    free(m.first);
    free(m.events);
    free(m.live);
    if (!fine) {
        sa_flame_events_free(t);
        sa_error_set(e, SA_EXIT_FAILED, "there is no memory for the time line");
    }
    return fine;
}

void sa_flame_events_free(struct sa_flame_events *t)
{
    free(t->rows.samples);
    free(t->rows.values);
    sa_moments_free(&t->moments);
    memset(t, 0, sizeof(*t));
}
