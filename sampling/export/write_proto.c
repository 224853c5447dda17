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
#include "sampling/export/proto.h"
#include "sampling/export/proto_singles.h"
#include "sampling/export/summary.h"
#include "sampling/export/sums_field.h"
#include "sampling/export/values.h"
#include "sampling/record/place.h"
#include "sampling/record/thread_name.h"
#include "sampling/snapshot/residency.h"
#include "sampling/symbolize/frames.h"

#include <string.h>

/* Field numbers of the messages, as in profile.proto. */
enum {
    PROFILE_SAMPLE_TYPE = 1,
    PROFILE_SAMPLE,
    PROFILE_MAPPING,
    PROFILE_LOCATION,
    PROFILE_FUNCTION,
    PROFILE_STRING,
    PROFILE_DROP_FRAMES,
    PROFILE_TIME = 9,
    PROFILE_DURATION,
    PROFILE_PERIOD_TYPE,
    PROFILE_PERIOD,
    PROFILE_COMMENT,
    PROFILE_DEFAULT_TYPE
};
enum { TYPE_TYPE = 1, TYPE_UNIT };
enum { SAMPLE_LOCATION = 1, SAMPLE_VALUE, SAMPLE_LABEL };
enum { LABEL_KEY = 1, LABEL_STRING, LABEL_NUMBER, LABEL_UNIT };
enum { MAPPING_ID = 1, MAPPING_START, MAPPING_LIMIT, MAPPING_OFFSET, MAPPING_FILE };
enum { MAPPING_BUILD_ID = MAPPING_FILE + 1, MAPPING_HAS_FUNCTIONS };
enum { LOCATION_ID = 1, LOCATION_MAPPING, LOCATION_ADDRESS, LOCATION_LINE };
enum { LINE_FUNCTION = 1 };
enum { FUNCTION_ID = 1, FUNCTION_NAME, FUNCTION_SYSTEM_NAME };

/* The strings that every file begins with. S_<name> is the number of each. */
#define STRINGS(X)                                                                                 \
    X(EMPTY, "")                                                                                   \
    X(COUNT, "count")                                                                              \
    X(BYTES, "bytes")                                                                              \
    X(NANOSECONDS, "nanoseconds")                                                                  \
    X(SPACE, "space")                                                                              \
    X(OBJECTS, "objects")                                                                          \
    X(ALLOC_OBJECTS, "alloc_objects")                                                              \
    X(ALLOC_SPACE, "alloc_space")                                                                  \
    X(INUSE_OBJECTS, "inuse_objects")                                                              \
    X(INUSE_SPACE, "inuse_space")                                                                  \
    X(ALLOCATED_OBJECTS, "allocated_objects")                                                      \
    X(ALLOCATED_SPACE, "allocated_space")                                                          \
    X(DEALLOCATED_OBJECTS, "deallocated_objects")                                                  \
    X(DEALLOCATED_SPACE, "deallocated_space")                                                      \
    X(CENSORED_OBJECTS, "censored_allocated_objects")                                              \
    X(CENSORED_SPACE, "censored_allocated_space")                                                  \
    X(REQUEST, "request")                                                                          \
    X(ALIGNMENT, "alignment")                                                                      \
    X(ALLOCATION_TYPE, "allocation type")                                                          \
    X(MALLOC, "malloc")                                                                            \
    X(NEW, "new")                                                                                  \
    X(ALIGNED, "aligned malloc")                                                                   \
    X(GUARDED_STATUS, "guarded_status")                                                            \
    X(LARGER_THAN_ONE_PAGE, "LargerThanOnePage")                                                   \
    X(DISABLED, "Disabled")                                                                        \
    X(RATE_LIMITED, "RateLimited")                                                                 \
    X(NO_AVAILABLE_SLOTS, "NoAvailableSlots")                                                      \
    X(MPROTECT_FAILED, "MProtectFailed")                                                           \
    X(FILTERED, "Filtered")                                                                        \
    X(NOT_ATTEMPTED, "NotAttempted")                                                               \
    X(GUARDED, "Guarded")                                                                          \
    X(RESIDENT_SPACE, "resident_space")                                                            \
    X(SWAPPED_SPACE, "swapped_space")                                                              \
    X(LOCKED_SPACE, "locked_space")                                                                \
    X(ZERO_SPACE, "zero_space")                                                                    \
    X(SAMPLES, "samples")                                                                          \
    X(THREAD_ID, "thread_id")                                                                      \
    X(THREAD, "thread")                                                                            \
    X(PAIR, "callstack-pair-id")                                                                   \
    X(AVERAGE, "avg_lifetime")                                                                     \
    X(DEVIATION, "stddev_lifetime")                                                                \
    X(SHORTEST, "min_lifetime")                                                                    \
    X(LONGEST, "max_lifetime")                                                                     \
    X(ACTIVE_CPU, "active CPU")                                                                    \
    X(ACTIVE_VCPU, "active vCPU")                                                                  \
    X(ACTIVE_L3, "active L3")                                                                      \
    X(ACTIVE_NUMA, "active NUMA")                                                                  \
    X(ACTIVE_THREAD, "active thread")                                                              \
    X(SAME, "same")                                                                                \
    X(DIFFERENT, "different")                                                                      \
    X(NONE, "none")                                                                                \
    X(DROP_FRAMES, "(?:malloc|calloc|realloc|reallocarray|aligned_alloc|memalign|"                 \
                   "posix_memalign|valloc|pvalloc|free|operator new(?:\\[\\])?|"                   \
                   "operator delete(?:\\[\\])?|_Zn[aw].*|_Zd[al].*|salloc_.*)")

enum {
#define X(name, text) S_##name,
    STRINGS(X)
#undef X
        S_KNOWN
};

/* The strings in one array. Pointers to them would be relocated at every start of a process. */
#define X(name, text) text "\0"
static const char known[] = STRINGS(X);
#undef X

#define TYPES_MAX 8

/* The sample types of a profile: name, unit, and the residency that must be known (SA_KNOWS_...).
 * `first` is shown first. It is the last, except for lifetimes: some readers show the last. */
static const struct {
    uint8_t count, first;
    uint8_t types[TYPES_MAX][3];
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
};

/* Indices of values: where those of a bucket begin; those of a HEAP profile. */
enum { AT_ALLOC = 0, AT_PEAK = 2, AT_FREED = 2, AT_CENSORED = 4 };
enum { AT_RESIDENT = 2, AT_SWAPPED, AT_LOCKED, AT_ZERO, AT_INUSE };

#define THREADS 64 /* names of threads that the writer remembers */

struct writer {
    const struct sa_profile *profile;
    struct sa_sink *out;
    struct sa_frames frames;
    uint64_t strings; /* put so far */
    struct {
        uint32_t tid, string; /* string: number of the thread's name. tid 0: empty */
    } threads[THREADS];       /* names put lately, by tid % THREADS */
};

static void put_message(struct writer *w, unsigned field, const struct sa_proto *m)
{
    sa_proto_put_bytes(w->out, field, m->bytes, m->used);
}

/* Puts a string and returns its number. */
static uint64_t put_string(struct writer *w, const char *s)
{
    sa_proto_put_bytes(w->out, PROFILE_STRING, s, strlen(s));
    return w->strings++;
}

static void put_type(struct writer *w, unsigned field, const uint8_t *type)
{
    struct sa_proto m;

    m.used = 0;
    sa_proto_number(&m, TYPE_TYPE, type[0]);
    sa_proto_number(&m, TYPE_UNIT, type[1]);
    put_message(w, field, &m);
}

static void add_label(struct sa_proto *sample, unsigned key, uint64_t number, unsigned unit)
{
    struct sa_proto m;

    if (!number)
        return;
    m.used = 0;
    sa_proto_number(&m, LABEL_KEY, key);
    sa_proto_number(&m, LABEL_NUMBER, number);
    sa_proto_number(&m, LABEL_UNIT, unit);
    sa_proto_message(sample, SAMPLE_LABEL, &m);
}

static void add_word(struct sa_proto *sample, unsigned key, unsigned word)
{
    struct sa_proto m;

    m.used = 0;
    sa_proto_number(&m, LABEL_KEY, key);
    sa_proto_number(&m, LABEL_STRING, word);
    sa_proto_message(sample, SAMPLE_LABEL, &m);
}

/* Adds whether blocks were freed where they were allocated, if that is known. */
static void add_active(struct sa_proto *sample, unsigned key, int same)
{
    if (same != SA_SAME_UNKNOWN)
        add_word(sample, key, same > 0 ? S_SAME : same == 0 ? S_DIFFERENT : S_NONE);
}

/* Returns whether the file has sample type i of its list: the kernel has told its values. */
static bool has_type(const struct writer *w, unsigned i)
{
    return !(sample_types[w->profile->type].types[i][2] & ~w->profile->knows);
}

/* Begins a sample. stack: NULL: not known. values: of all types of the list. */
static void begin_sample(struct writer *w, struct sa_proto *m, const struct sa_stack *stack,
                         const uint64_t *values)
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

static void add_thread(struct writer *w, struct sa_proto *m, uint32_t tid)
{
    char name[SA_THREAD_NAME_BYTES];
    unsigned at = tid % THREADS;

    if (!tid)
        return;
    if (w->threads[at].tid != tid) {
        sa_thread_name_in(w->profile->origin, tid, name);
        w->threads[at].string = (uint32_t)put_string(w, name);
        w->threads[at].tid = tid;
    }
    add_label(m, S_THREAD_ID, tid, S_COUNT);
    add_word(m, S_THREAD, w->threads[at].string);
}

static void add_block_labels(struct writer *w, struct sa_proto *m, const struct sa_bucket *b)
{
    const struct sa_bucket_key *key = &b->key;
    static const uint8_t kinds[] = {[SALLOC_KIND_MALLOC] = S_MALLOC,
                                    [SALLOC_KIND_NEW] = S_NEW,
                                    [SALLOC_KIND_ALIGNED] = S_ALIGNED};

    add_label(m, S_BYTES, key->allocated, S_BYTES);
    add_label(m, S_REQUEST, key->requested, S_BYTES);
    add_label(m, S_ALIGNMENT, key->align, S_BYTES);
    add_word(m, S_ALLOCATION_TYPE, kinds[key->kind]);
    add_word(m, S_GUARDED_STATUS, guarded_word(key->guarded));
    add_label(m, S_SAMPLES, sa_values_unusual_samples(w->profile, b), S_COUNT);
}

static void add_lifetime_labels(struct writer *w, struct sa_proto *m, const struct sa_bucket *b)
{
    struct salloc_profile_sample s;

    sa_profile_bucket_sample(w->profile, b, &s);
    add_label(m, S_PAIR, (uint64_t)(b - w->profile->buckets) + 1, S_COUNT);
    add_label(m, S_AVERAGE, (uint64_t)s.lifetime_mean, S_NANOSECONDS);
    add_label(m, S_DEVIATION, (uint64_t)s.lifetime_deviation, S_NANOSECONDS);
    add_label(m, S_SHORTEST, s.lifetime_min, S_NANOSECONDS);
    add_label(m, S_LONGEST, s.lifetime_max, S_NANOSECONDS);
    add_active(m, S_ACTIVE_CPU, b->key.same_cpu);
    add_active(m, S_ACTIVE_VCPU, b->key.same_vcpu);
    add_active(m, S_ACTIVE_L3, b->key.same_l3);
    add_active(m, S_ACTIVE_NUMA, b->key.same_numa);
    add_active(m, S_ACTIVE_THREAD, b->key.same_thread);
}

/* Puts a bucket: one sample, or two for blocks that a recording saw allocated and freed. */
static void put_bucket(struct writer *w, const struct sa_bucket *b)
{
    enum salloc_profile_type type = w->profile->type;
    unsigned at = type == SALLOC_PROFILE_HEAP        ? AT_INUSE
                  : type == SALLOC_PROFILE_PEAK_HEAP ? AT_PEAK
                  : b->key.censored                  ? AT_CENSORED
                                                     : AT_ALLOC;
    uint64_t values[TYPES_MAX] = {0};
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
    begin_sample(w, &m, b->key.stack, values);
    add_block_labels(w, &m, b);
    add_thread(w, &m, b->key.tid);
    if (type == SALLOC_PROFILE_LIFETIMES)
        add_lifetime_labels(w, &m, b);
    put_message(w, PROFILE_SAMPLE, &m);
    if (type == SALLOC_PROFILE_LIFETIMES && !b->key.censored) { /* the other end of the pair */
        begin_sample(w, &m, b->key.free_stack,
                     (uint64_t[TYPES_MAX]){[AT_FREED] = v.count, v.bytes});
        add_block_labels(w, &m, b);
        add_thread(w, &m, b->key.free_tid);
        add_lifetime_labels(w, &m, b);
        put_message(w, PROFILE_SAMPLE, &m);
    }
}

static void put_samples(struct writer *w)
{
    for (size_t i = 0; i < w->profile->bucket_count; i++)
        put_bucket(w, &w->profile->buckets[i]);
    for (size_t i = 0; i < w->profile->total_count; i++) { /* alloc_objects and alloc_space */
        const struct sa_total *total = &w->profile->totals[i];
        struct sa_values v;
        struct sa_proto m;

        sa_values_of_total(total, &v);
        begin_sample(w, &m, total->stack, (uint64_t[TYPES_MAX]){[AT_ALLOC] = v.count, v.bytes});
        sa_sums_field_add(&m, &total->sums);
        put_message(w, PROFILE_SAMPLE, &m);
    }
}

/* Returns whether names were found in an object. Readers then look for none. */
static bool has_functions(const struct sa_frames *f, uint32_t object)
{
    for (size_t i = 0; i < sa_frames_count(f); i++) {
        const struct sa_frame *frame = sa_frames_frame(f, i);

        if (frame->segment && !frame->guess &&
            sa_mappings_segment(&f->mappings, frame->segment - 1)->object == object)
            return true;
    }
    return false;
}

static void put_mappings(struct writer *w)
{
    const struct sa_mappings *maps = &w->frames.mappings;
    uint64_t file = 0, id = 0;
    bool functions = false;

    for (size_t i = 0; i < sa_mappings_segments(maps); i++) {
        const struct sa_segment *segment = sa_mappings_segment(maps, i);
        const struct sa_object *object = sa_mappings_object(maps, segment->object);
        struct sa_proto m;

        if (i == object->segment) { /* the object's first */
            char hex[2 * SA_BUILD_ID_MAX + 1], *path;
            struct sa_fmt f;

            /* All strings have to be UTF-8. The path is not used to open the file from here on. */
            path = w->frames.mappings.names.data + object->name;
            sa_utf8_clean(path, strlen(path));
            file = put_string(w, path);
            sa_fmt_init(&f, hex, sizeof(hex));
            for (size_t k = 0; k < object->build_id_bytes; k++)
                sa_fmt_add(&f, "%02x", object->build_id[k]);
            id = object->build_id_bytes ? put_string(w, hex) : 0;
            functions = has_functions(&w->frames, segment->object);
        }
        m.used = 0;
        sa_proto_number(&m, MAPPING_ID, i + 1);
        sa_proto_number(&m, MAPPING_START, segment->start);
        sa_proto_number(&m, MAPPING_LIMIT, segment->limit);
        sa_proto_number(&m, MAPPING_OFFSET, segment->offset);
        sa_proto_number(&m, MAPPING_FILE, file);
        sa_proto_number(&m, MAPPING_BUILD_ID, id);
        sa_proto_number(&m, MAPPING_HAS_FUNCTIONS, functions);
        put_message(w, PROFILE_MAPPING, &m);
    }
}

/* Puts locations and functions. Locations in objects without symbols have no function, so that a
 * reader looks for the name itself. */
static void put_locations(struct writer *w)
{
    uint32_t last = 0, named = 0; /* frame->function before; functions put */

    for (size_t i = 0; i < sa_frames_count(&w->frames); i++) {
        const struct sa_frame *frame = sa_frames_frame(&w->frames, i);
        struct sa_proto m, line;

        if (!frame->guess && frame->function != last) {
            uint64_t name = put_string(w, w->frames.names.data + frame->name);

            last = frame->function;
            m.used = 0;
            sa_proto_number(&m, FUNCTION_ID, ++named);
            sa_proto_number(&m, FUNCTION_NAME, name);
            sa_proto_number(&m, FUNCTION_SYSTEM_NAME, name);
            put_message(w, PROFILE_FUNCTION, &m);
        }
        m.used = line.used = 0;
        sa_proto_number(&m, LOCATION_ID, i + 1);
        sa_proto_number(&m, LOCATION_MAPPING, frame->segment);
        sa_proto_number(&m, LOCATION_ADDRESS, frame->pc - 1);
        if (!frame->guess) {
            sa_proto_number(&line, LINE_FUNCTION, named);
            sa_proto_message(&m, LOCATION_LINE, &line);
        }
        put_message(w, PROFILE_LOCATION, &m);
    }
}

static void put_comments(struct writer *w, const struct sa_by_stack *all)
{
    char text[512];
    struct sa_fmt f;

    for (unsigned i = 0;; i++) {
        sa_fmt_init(&f, text, sizeof(text));
        if (!sa_summary_line(w->profile, all, i, &f))
            break;
        sa_proto_put_number(w->out, PROFILE_COMMENT, put_string(w, text));
    }
}

static void put_head(struct writer *w)
{
    static const uint8_t period_type[2] = {S_SPACE, S_BYTES};
    enum salloc_profile_type type = w->profile->type;
    const char *string = known;

    for (unsigned i = 0; i < S_KNOWN; i++, string += strlen(string) + 1)
        put_string(w, string);
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
    struct writer w = {.profile = profile, .out = out};
    struct sa_buffer stacks = {NULL, 0, 0};
    struct sa_by_stack all;
    int failed = sa_values_by_stack(profile, &stacks, &all);

    sa_buffer_free(&stacks);
    if (!failed)
        failed = sa_frames_collect(profile, &w.frames);
    if (failed)
        return failed;
    put_head(&w);
    put_samples(&w);
    sa_proto_put_singles(profile, out);
    put_mappings(&w);
    put_locations(&w);
    put_comments(&w, &all);
    sa_frames_free(&w.frames);
    return 0;
}
