/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file in the format of profile.proto while it is written: what its parts share
 * (sampling/export/write_proto.c, proto_places.c, proto_events.c). It belongs to its writer.
 */
#ifndef SA_SAMPLING_EXPORT_PROTO_FILE_H
#define SA_SAMPLING_EXPORT_PROTO_FILE_H

#include "sampling/export/proto.h"
#include "sampling/profile/profile.h"
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
#define SA_PROTO_STRINGS(X)                                                                        \
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
    X(HANDLE, "alloc_handle")                                                                      \
    X(ALLOCATION_TIME, "allocation_time")                                                          \
    X(DEALLOCATION_TIME, "deallocation_time")                                                      \
    X(REQUESTED_SIZE, "requested_size")                                                            \
    X(CPU_ID, "cpu_id")                                                                            \
    X(SAME, "same")                                                                                \
    X(DIFFERENT, "different")                                                                      \
    X(NONE, "none")                                                                                \
    X(DROP_FRAMES, "(?:malloc|calloc|realloc|reallocarray|aligned_alloc|memalign|"                 \
                   "posix_memalign|valloc|pvalloc|free|operator new(?:\\[\\])?|"                   \
                   "operator delete(?:\\[\\])?|_Zn[aw].*|_Zd[al].*|salloc_.*)")

enum {
#define X(name, text) S_##name,
    SA_PROTO_STRINGS(X)
#undef X
        S_KNOWN
};

#define SA_PROTO_TYPES_MAX 8

#define SA_PROTO_THREADS 64 /* names of threads that the writer remembers */

struct sa_proto_file {
    const struct sa_profile *profile;
    struct sa_sink *out;
    struct sa_frames frames;
    uint64_t strings; /* put so far */
    struct {
        uint32_t tid, string;    /* string: number of the thread's name. tid 0: empty */
    } threads[SA_PROTO_THREADS]; /* names put lately, by tid % SA_PROTO_THREADS */
};

static inline void sa_proto_file_message(struct sa_proto_file *w, unsigned field,
                                         const struct sa_proto *m)
{
    sa_proto_put_bytes(w->out, field, m->bytes, m->used);
}

/* Puts a string and returns its number. */
static inline uint64_t sa_proto_file_string(struct sa_proto_file *w, const char *s)
{
    sa_proto_put_bytes(w->out, PROFILE_STRING, s, strlen(s));
    return w->strings++;
}

static inline void sa_proto_label(struct sa_proto *sample, unsigned key, uint64_t number,
                                  unsigned unit)
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

static inline void sa_proto_word(struct sa_proto *sample, unsigned key, unsigned word)
{
    struct sa_proto m;

    m.used = 0;
    sa_proto_number(&m, LABEL_KEY, key);
    sa_proto_number(&m, LABEL_STRING, word);
    sa_proto_message(sample, SAMPLE_LABEL, &m);
}

/* Begins a sample. stack: NULL: not known. values: of all types of the profile's list. */
void sa_proto_begin_sample(struct sa_proto_file *w, struct sa_proto *m,
                           const struct sa_stack *stack, const uint64_t *values);

/* Adds the number and the name of a thread; 0: none. */
void sa_proto_add_thread(struct sa_proto_file *w, struct sa_proto *m, uint32_t tid);

/* Put the objects, and the addresses with their functions. */
void sa_proto_file_mappings(struct sa_proto_file *w);
void sa_proto_file_locations(struct sa_proto_file *w);

/* Puts a sample for each event of an EVENTS profile. */
void sa_proto_file_events(struct sa_proto_file *w);

#endif
