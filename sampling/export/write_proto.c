/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes profile.proto (github.com/google/pprof, proto/profile.proto). Sample types have Go's names
 * for blocks in use, and tcmalloc's for lifetimes. They never change for a type of profile, because
 * readers compare only files with the same types. Labels have tcmalloc's names.
 *
 * The numbers of mappings, locations and functions count from 1 without gaps, which some readers
 * rely on. A string is put when it is first needed. Its number is its place among all strings.
 */
#include "sampling/export/write.h"

#include "alloc/base/fmt.h"
#include "alloc/base/utf8.h"
#include "sampling/export/proto_file.h"
#include "sampling/export/proto_singles.h"
#include "sampling/export/summary.h"
#include "sampling/export/sums_field.h"
#include "sampling/export/values.h"
#include "sampling/record/place.h"
#include "sampling/record/thread_name.h"
#include "sampling/snapshot/residency.h"
#include "sampling/symbolize/frames.h"

#include <string.h>

/* The strings in one array. Pointers to them would be relocated at every start of a process. */
#define X(name, text) text "\0"
static const char known[] = SA_PROTO_STRINGS(X);
#undef X

/* The sample types of a profile: name, unit, and the residency that must be known (SA_KNOWS_...).
 * `first` is shown first. It is the last, except for lifetimes: some readers show the last. */
static const struct {
    uint8_t count, first;
    uint8_t types[SA_PROTO_TYPES_MAX][3];
} sample_types[] = {
    [SALLOC_PROFILE_HEAP] = {8,
                             S_INUSE_SPACE,
                             {{S_ALLOC_OBJECTS, S_COUNT, 0},
                              {S_ALLOC_SPACE, S_BYTES, 0},
                              {S_RESIDENT_SPACE, S_BYTES, SA_KNOWS_PAGES},
                              {S_SWAPPED_SPACE, S_BYTES, SA_KNOWS_PAGES},
                              {S_LOCKED_SPACE, S_BYTES, SA_KNOWS_LOCKED},
                              {S_ZERO_SPACE, S_BYTES, SA_KNOWS_ZERO},
                              {S_INUSE_OBJECTS, S_COUNT, 0},
                              {S_INUSE_SPACE, S_BYTES, 0}}},
    [SALLOC_PROFILE_FRAGMENTATION] = {2, S_SPACE, {{S_OBJECTS, S_COUNT, 0}, {S_SPACE, S_BYTES, 0}}},
    [SALLOC_PROFILE_PEAK_HEAP] = {4,
                                  S_INUSE_SPACE,
                                  {{S_ALLOC_OBJECTS, S_COUNT, 0},
                                   {S_ALLOC_SPACE, S_BYTES, 0},
                                   {S_INUSE_OBJECTS, S_COUNT, 0},
                                   {S_INUSE_SPACE, S_BYTES, 0}}},
    [SALLOC_PROFILE_ALLOCATIONS] = {2,
                                    S_ALLOC_SPACE,
                                    {{S_ALLOC_OBJECTS, S_COUNT, 0}, {S_ALLOC_SPACE, S_BYTES, 0}}},
    [SALLOC_PROFILE_LIFETIMES] = {6,
                                  S_DEALLOCATED_SPACE,
                                  {{S_ALLOCATED_OBJECTS, S_COUNT, 0},
                                   {S_ALLOCATED_SPACE, S_BYTES, 0},
                                   {S_DEALLOCATED_OBJECTS, S_COUNT, 0},
                                   {S_DEALLOCATED_SPACE, S_BYTES, 0},
                                   {S_CENSORED_OBJECTS, S_COUNT, 0},
                                   {S_CENSORED_SPACE, S_BYTES, 0}}},
    [SALLOC_PROFILE_EVENTS] = {4,
                               S_ALLOCATED_SPACE,
                               {{S_ALLOCATED_OBJECTS, S_COUNT, 0},
                                {S_ALLOCATED_SPACE, S_BYTES, 0},
                                {S_DEALLOCATED_OBJECTS, S_COUNT, 0},
                                {S_DEALLOCATED_SPACE, S_BYTES, 0}}},
};

/* Indices of values: where those of a bucket begin; those of a HEAP profile. */
enum { AT_ALLOC = 0, AT_PEAK = 2, AT_FREED = 2, AT_CENSORED = 4 };
enum { AT_RESIDENT = 2, AT_SWAPPED, AT_LOCKED, AT_ZERO, AT_INUSE };

static void put_type(struct sa_proto_file *w, unsigned field, const uint8_t *type)
{
    struct sa_proto m;

    m.used = 0;
    sa_proto_number(&m, TYPE_TYPE, type[0]);
    sa_proto_number(&m, TYPE_UNIT, type[1]);
    sa_proto_file_message(w, field, &m);
}

/* Adds whether blocks were freed where they were allocated, if that is known. */
static void add_active(struct sa_proto *sample, unsigned key, int same)
{
    if (same != SA_SAME_UNKNOWN)
        sa_proto_word(sample, key, same > 0 ? S_SAME : same == 0 ? S_DIFFERENT : S_NONE);
}

/* Returns whether the file has sample type i of its list: the kernel has told its values. */
static bool has_type(const struct sa_proto_file *w, unsigned i)
{
    return !(sample_types[w->profile->type].types[i][2] & ~w->profile->knows);
}

void sa_proto_begin_sample(struct sa_proto_file *w, struct sa_proto *m,
                           const struct sa_stack *stack, const uint64_t *values)
{
    const struct sa_stack *from = stack ? stack : &sa_stack_unknown;
    size_t depth = sa_frames_depth(from);
    struct sa_proto packed;

    m->used = packed.used = 0;
    for (size_t i = 0; i < depth && i < SA_STACK_MAX; i++)
        sa_proto_varint(&packed, sa_frames_find(&w->frames, sa_frames_pc(from, i)) + 1);
    sa_proto_message(m, SAMPLE_LOCATION, &packed);
    packed.used = 0;
    for (unsigned i = 0; i < sample_types[w->profile->type].count; i++)
        if (has_type(w, i))
            sa_proto_varint(&packed, values[i]);
    sa_proto_message(m, SAMPLE_VALUE, &packed);
}

static unsigned guarded_word(int status)
{
    static const uint8_t words[] = {
        /* from FILTERED, -7, to 0 */
        S_FILTERED,     S_MPROTECT_FAILED, S_NO_AVAILABLE_SLOTS,   S_NOT_ATTEMPTED,
        S_RATE_LIMITED, S_DISABLED,        S_LARGER_THAN_ONE_PAGE, S_NOT_ATTEMPTED};

    if (status == SALLOC_GUARDED_GUARDED)
        return S_GUARDED;
    return status < SALLOC_GUARDED_FILTERED || status > 0 ? S_NOT_ATTEMPTED : words[status + 7];
}

void sa_proto_add_thread(struct sa_proto_file *w, struct sa_proto *m, uint32_t tid)
{
    char name[SA_THREAD_NAME_BYTES];
    unsigned at = tid % SA_PROTO_THREADS;

    if (!tid)
        return;
    if (w->threads[at].tid != tid) {
        sa_thread_name_in(w->profile->origin, tid, name);
        w->threads[at].string = (uint32_t)sa_proto_file_string(w, name);
        w->threads[at].tid = tid;
    }
    sa_proto_label(m, S_THREAD_ID, tid, S_COUNT);
    sa_proto_word(m, S_THREAD, w->threads[at].string);
}

static void add_block_labels(struct sa_proto_file *w, struct sa_proto *m, const struct sa_bucket *b)
{
    const struct sa_bucket_key *key = &b->key;
    static const uint8_t kinds[] = {[SALLOC_KIND_MALLOC] = S_MALLOC,
                                    [SALLOC_KIND_NEW] = S_NEW,
                                    [SALLOC_KIND_ALIGNED] = S_ALIGNED};

    sa_proto_label(m, S_BYTES, key->allocated, S_BYTES);
    sa_proto_label(m, S_REQUEST, key->requested, S_BYTES);
    sa_proto_label(m, S_ALIGNMENT, key->align, S_BYTES);
    sa_proto_word(m, S_ALLOCATION_TYPE, kinds[key->kind]);
    sa_proto_word(m, S_GUARDED_STATUS, guarded_word(key->guarded));
    sa_proto_label(m, S_SAMPLES, sa_values_unusual_samples(w->profile, b), S_COUNT);
}

static void add_lifetime_labels(struct sa_proto_file *w, struct sa_proto *m,
                                const struct sa_bucket *b)
{
    struct salloc_profile_sample s;

    sa_profile_bucket_sample(w->profile, b, &s);
    sa_proto_label(m, S_PAIR, (uint64_t)(b - w->profile->buckets) + 1, S_COUNT);
    sa_proto_label(m, S_AVERAGE, (uint64_t)s.lifetime_mean, S_NANOSECONDS);
    sa_proto_label(m, S_DEVIATION, (uint64_t)s.lifetime_deviation, S_NANOSECONDS);
    sa_proto_label(m, S_SHORTEST, s.lifetime_min, S_NANOSECONDS);
    sa_proto_label(m, S_LONGEST, s.lifetime_max, S_NANOSECONDS);
    add_active(m, S_ACTIVE_CPU, b->key.same_cpu);
    add_active(m, S_ACTIVE_VCPU, b->key.same_vcpu);
    add_active(m, S_ACTIVE_L3, b->key.same_l3);
    add_active(m, S_ACTIVE_NUMA, b->key.same_numa);
    add_active(m, S_ACTIVE_THREAD, b->key.same_thread);
}

/* Puts a bucket: one sample, or two for blocks that a recording saw allocated and freed. */
static void put_bucket(struct sa_proto_file *w, const struct sa_bucket *b)
{
    enum salloc_profile_type type = w->profile->type;
    unsigned at = type == SALLOC_PROFILE_HEAP        ? AT_INUSE
                  : type == SALLOC_PROFILE_PEAK_HEAP ? AT_PEAK
                  : b->key.censored                  ? AT_CENSORED
                                                     : AT_ALLOC;
    uint64_t values[SA_PROTO_TYPES_MAX] = {0};
    struct sa_values v;
    struct sa_proto m;

    sa_values_of_bucket(b, &v);
    values[at] = v.count;
    values[at + 1] = type == SALLOC_PROFILE_FRAGMENTATION ? v.waste : v.bytes;
    if (type == SALLOC_PROFILE_HEAP) {
        values[AT_RESIDENT] = v.resident;
        values[AT_SWAPPED] = v.swapped;
        values[AT_LOCKED] = v.locked;
        values[AT_ZERO] = v.zero;
    }
    sa_proto_begin_sample(w, &m, b->key.stack, values);
    add_block_labels(w, &m, b);
    sa_proto_add_thread(w, &m, b->key.tid);
    if (type == SALLOC_PROFILE_LIFETIMES)
        add_lifetime_labels(w, &m, b);
    sa_proto_file_message(w, PROFILE_SAMPLE, &m);
    if (type == SALLOC_PROFILE_LIFETIMES && !b->key.censored) { /* the other end of the pair */
        sa_proto_begin_sample(w, &m, b->key.free_stack,
                              (uint64_t[SA_PROTO_TYPES_MAX]){[AT_FREED] = v.count, v.bytes});
        add_block_labels(w, &m, b);
        sa_proto_add_thread(w, &m, b->key.free_tid);
        add_lifetime_labels(w, &m, b);
        sa_proto_file_message(w, PROFILE_SAMPLE, &m);
    }
}

static void put_samples(struct sa_proto_file *w)
{
    for (size_t i = 0; i < w->profile->bucket_count; i++)
        put_bucket(w, &w->profile->buckets[i]);
    for (size_t i = 0; i < w->profile->total_count; i++) { /* alloc_objects and alloc_space */
        const struct sa_total *total = &w->profile->totals[i];
        struct sa_values v;
        struct sa_proto m;

        sa_values_of_total(total, &v);
        sa_proto_begin_sample(w, &m, total->stack,
                              (uint64_t[SA_PROTO_TYPES_MAX]){[AT_ALLOC] = v.count, v.bytes});
        sa_sums_field_add(&m, &total->sums);
        sa_proto_file_message(w, PROFILE_SAMPLE, &m);
    }
}

static void put_comments(struct sa_proto_file *w, const struct sa_by_stack *all)
{
    char text[512];
    struct sa_fmt f;

    for (unsigned i = 0;; i++) {
        sa_fmt_init(&f, text, sizeof(text));
        if (!sa_summary_line(w->profile, all, i, &f))
            break;
        sa_proto_put_number(w->out, PROFILE_COMMENT, sa_proto_file_string(w, text));
    }
}

static void put_head(struct sa_proto_file *w)
{
    static const uint8_t period_type[2] = {S_SPACE, S_BYTES};
    enum salloc_profile_type type = w->profile->type;
    const char *string = known;

    for (unsigned i = 0; i < S_KNOWN; i++, string += strlen(string) + 1)
        sa_proto_file_string(w, string);
    for (unsigned i = 0; i < sample_types[type].count; i++)
        if (has_type(w, i))
            put_type(w, PROFILE_SAMPLE_TYPE, sample_types[type].types[i]);
    put_type(w, PROFILE_PERIOD_TYPE, period_type);
    sa_proto_put_number(w->out, PROFILE_PERIOD, (uint64_t)w->profile->interval);
    sa_proto_put_number(w->out, PROFILE_TIME, (uint64_t)w->profile->time_ns);
    sa_proto_put_number(w->out, PROFILE_DURATION, (uint64_t)w->profile->duration_ns);
    sa_proto_put_number(w->out, PROFILE_DROP_FRAMES, S_DROP_FRAMES);
    sa_proto_put_number(w->out, PROFILE_DEFAULT_TYPE, sample_types[type].first);
}

int sa_write_proto(const struct sa_profile *profile, struct sa_sink *out)
{
    struct sa_proto_file w = {.profile = profile, .out = out};
    struct sa_buffer stacks = {NULL, 0, 0};
    struct sa_by_stack all;
    int failed = sa_values_by_stack(profile, &stacks, &all);

    sa_buffer_free(&stacks);
    if (!failed)
        failed = sa_frames_collect(profile, &w.frames);
    if (failed)
        return failed;
    put_head(&w);
    if (profile->type == SALLOC_PROFILE_EVENTS)
        sa_proto_file_events(&w);
    else
        put_samples(&w);
    sa_proto_put_singles(profile, out);
    sa_proto_file_mappings(&w);
    sa_proto_file_locations(&w);
    put_comments(&w, &all);
    sa_frames_free(&w.frames);
    return 0;
}
