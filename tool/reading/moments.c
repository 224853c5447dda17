/* SPDX-License-Identifier: Apache-2.0 */
/* Readings of a process over time; see moments.h. Stacks are those of this command's own table,
 * which outlive a reading; names are looked up once, at the end. */
#include "tool/reading/moments.h"

#include "tool/base/io.h"
#include "tool/base/time.h"
#include "tool/reading/input.h"
#include "tool/reading/output.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define TIMES_READ 4

static bool no_memory(struct sa_error *e)
{
    sa_error_set(e, SA_EXIT_FAILED, "there is no memory for the time line");
    return false;
}

static void forget(struct sa_moments *m, size_t i)
{
    m->entries -= m->of[i].count;
    free(m->of[i].entries);
    memset(&m->of[i], 0, sizeof(m->of[i]));
}

/* Forgets every second moment. */
static void thin_out(struct sa_moments *m)
{
    size_t kept = 0;

    for (size_t i = 0; i < m->count; i++) {
        if (i % 2) {
            forget(m, i);
            continue;
        }
        if (kept != i) {
            m->of[kept] = m->of[i];
            memset(&m->of[i], 0, sizeof(m->of[i]));
        }
        kept++;
    }
    m->count = kept;
    m->stride *= 2;
}

/* The program of a collection of mappings; NULL: it has none. */
static const struct sa_object *program_of(const struct sa_mappings *m)
{
    for (size_t i = 0; i < sa_mappings_objects(m); i++)
        if (sa_mappings_object(m, i)->main)
            return sa_mappings_object(m, i);
    return NULL;
}

/* Whether both are of one program, at one place. */
static bool is_same(const struct sa_mappings *a, const struct sa_mappings *b)
{
    const struct sa_object *x = program_of(a), *y = program_of(b);

    return x && y && x->base == y->base && x->build_id_bytes == y->build_id_bytes &&
           memcmp(x->build_id, y->build_id, x->build_id_bytes) == 0 &&
           strcmp(sa_mappings_name(a, x), sa_mappings_name(b, y)) == 0;
}

static void forget_all(struct sa_moments *m)
{
    for (size_t i = 0; i < m->count; i++)
        forget(m, i);
    m->count = 0;
    m->stride = 1;
    m->readings = m->left_out = 0;
    sa_buckets_free(&m->rows);
}

/* Takes the list of what the process has loaded. */
static bool take_mappings(struct sa_moments *m, const struct sa_reading *r)
{
    struct sa_mappings copy;

    if (sa_objects_copy(&r->objects.mappings, &copy) != 0)
        return false;
    if (!is_same(&m->mappings, &copy))
        forget_all(m);
    sa_mappings_free(&m->mappings);
    m->mappings = copy;
    return true;
}

bool sa_moments_are_live(const struct sa_moments *m)
{
    char path[SA_PROC_PATH];

    return m->pid > 0 && access(sa_io_proc_path(path, m->pid, "root"), F_OK) == 0;
}

static bool take_rows(struct sa_moments *m, const struct sa_outside_profile *p)
{
    struct sa_moment *to = &m->of[m->count];

    *to = (struct sa_moment){.time_ns = p->profile.time_ns, .unseen = p->profile.unseen};
    to->entries = calloc(p->rows.count + 1, sizeof(*to->entries));
    if (!to->entries)
        return false;
    for (size_t i = 0; i < p->rows.count; i++) {
        const struct sa_bucket *from = &p->rows.buckets[i];
        struct sa_bucket *row = sa_buckets_find(&m->rows, &from->key);

        if (row && from->samples <= UINT32_MAX)
            to->entries[to->count++] = (struct sa_moment_entry){(uint32_t)(row - m->rows.buckets),
                                                                (uint32_t)from->samples};
    }
    m->count++;
    m->entries += to->count;
    return true;
}

/* Reads what is in use, until nothing of it is left out or that was tried often enough. */
static bool read_whole(struct sa_reading *r, struct sa_outside_profile *p, struct sa_error *e)
{
    for (int i = 0;; i++) {
        if (!sa_reading_in_use(r, p, e))
            return false;
        if (!p->live.dropped || i == TIMES_READ)
            return true;
        sa_outside_profile_free(p);
    }
}

bool sa_moments_add(struct sa_moments *m, pid_t pid, struct sa_error *e)
{
    struct sa_outside_profile p = {0};
    struct sa_reading r;
    bool fine;

    if (!sa_reading_open(&r, (struct sa_source){.pid = pid}, e))
        return false;
    m->pid = pid;
    fine = read_whole(&r, &p, e);
    if (fine && !take_mappings(m, &r))
        fine = no_memory(e);
    m->unloaded = r.stacks.unloaded;
    m->left_out += fine && p.live.dropped;
    if (fine && !p.live.dropped && m->readings++ % m->stride == 0) {
        while (m->count == SA_MOMENTS_MAX ||
               (m->count > 2 && m->entries + p.rows.count > SA_MOMENT_ENTRIES_MAX))
            thin_out(m);
        m->interval = p.profile.interval;
        fine = take_rows(m, &p) || no_memory(e);
    }
    sa_outside_profile_free(&p);
    sa_reading_close(&r);
    return fine;
}

/* --- the file --- */

/* Of a process that has ended, files are opened by their names: a path below /proc is gone. */
static int own_mappings(const struct sa_profile_origin *origin, struct sa_mappings *ret)
{
    const struct sa_moments *m = origin->arg;
    struct sa_object *objects;

    if (sa_objects_copy(&m->mappings, ret) != 0)
        return -ENOMEM;
    objects = (struct sa_object *)ret->objects.data;
    for (size_t i = 0; !sa_moments_are_live(m) && i < sa_mappings_objects(ret); i++)
        objects[i].file = objects[i].name;
    return 0;
}

static void own_code_names(const struct sa_profile_origin *origin, struct sa_symbol *symbols,
                           size_t count, struct sa_buffer *names)
{
    const struct sa_moments *m = origin->arg;
    struct sa_code_map map;

    if (!sa_moments_are_live(m) || !sa_code_map_of_process(&map, m->pid))
        return;
    sa_code_map_symbols(&map, symbols, count, names);
    sa_code_map_free(&map);
}

static void thread_number(const struct sa_profile_origin *origin, uint32_t tid, char *ret,
                          size_t cap)
{
    (void)origin;
    snprintf(ret, cap, "%u", tid);
}

/* Sets the samples of each row to the most that it has at a moment. */
static bool set_samples(struct sa_moments *m)
{
    free(m->p);
    m->row_count = m->rows.count;
    m->p = calloc(m->row_count + 1, sizeof(*m->p));
    for (size_t i = 0; m->p && i < m->rows.count; i++) {
        m->rows.buckets[i].samples = 0;
        m->p[i] = m->rows.buckets[i].key.p;
    }
    for (size_t i = 0; i < m->count; i++)
        for (size_t k = 0; k < m->of[i].count; k++) {
            const struct sa_moment_entry *entry = &m->of[i].entries[k];
            struct sa_bucket *row = &m->rows.buckets[entry->row];

            if (row->samples < entry->samples)
                row->samples = entry->samples;
        }
    return m->p;
}

bool sa_moments_file(struct sa_moments *m, const char *root, struct sa_profile_file *ret,
                     struct sa_error *e)
{
    const struct sa_profile_origin origin = {.pid = m->pid,
                                             .unloaded = &m->unloaded,
                                             .mappings = own_mappings,
                                             .thread_name = thread_number,
                                             .code_names = own_code_names,
                                             .arg = (void *)(uintptr_t)m};
    const struct sa_moment *last = m->count ? &m->of[m->count - 1] : NULL;
    struct sa_profile profile = {.type = SALLOC_PROFILE_PEAK_HEAP,
                                 .origin = &origin,
                                 .interval = m->interval,
                                 .waste_max = INFINITY,
                                 .buckets = m->rows.buckets,
                                 .bucket_count = m->rows.count};
    struct sa_buffer data = {NULL, 0, 0};

    profile.time_ns = sa_time_ns(CLOCK_REALTIME);
    if (last)
        profile.unseen = last->unseen;
    if (!set_samples(m))
        return no_memory(e);
    if (!sa_output_proto(&profile, &data, e) ||
        !sa_profile_file_parse(ret, data.data, data.used, e)) {
        sa_buffer_free(&data);
        return false;
    }
    ret->data = data;
    return sa_input_add_lines(ret, root, e);
}

void sa_moments_free(struct sa_moments *m)
{
    forget_all(m);
    free(m->p);
    sa_mappings_free(&m->mappings);
    memset(m, 0, sizeof(*m));
}
