/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A profile.proto file in memory. The reader trusts nothing: it bounds each length, checks each
 * index once, and replaces control characters in strings. Users of the model therefore index its
 * arrays without checks, and print its strings as they are.
 */
#ifndef SA_TOOL_FILE_PROFILE_FILE_H
#define SA_TOOL_FILE_PROFILE_FILE_H

#include "alloc/os/buffer.h"
#include "sampling/estimate/estimate.h"
#include "tool/base/error.h"

#include <stdbool.h>
#include <stdint.h>

#define SA_FILE_BYTES_MAX (256u << 20) /* of a profile, uncompressed */
#define SA_FILE_TYPES_MAX 64           /* sample types */
#define SA_FILE_NONE      UINT32_MAX   /* an index: there is none */

struct sa_file_type {
    const char *name, *unit;
};

struct sa_file_mapping {
    uint64_t id, start, limit, offset;
    const char *file, *build_id;
};

struct sa_file_function {
    uint64_t id;
    const char *name, *system_name, *file; /* file "": not known */
};

/* An address of a stack: `line_count` functions, the innermost inlined one first. */
struct sa_file_location {
    uint64_t id, address;
    uint32_t mapping; /* index, or SA_FILE_NONE */
    uint32_t line, line_count;
};

struct sa_file_label {
    const char *key, *text; /* text "": the label is a number */
    int64_t number;
};

/* A row: a stack, leaf first, and what was found there. Fields are ranges of the arrays below. */
struct sa_file_sample {
    uint32_t frame, depth;
    uint32_t value; /* the first of type_count */
    uint32_t label, label_count;
    uint32_t sums; /* index, or SA_FILE_NONE; of what was ever allocated */
};

/* A sampled block that may not be certain. Two files have the same one if its number and its time
 * are the same in both. */
struct sa_file_single {
    uint32_t sample; /* index of the row that it is a part of */
    uint64_t number; /* in the order of allocation */
    uint64_t ms;     /* of its allocation */
};

struct sa_profile_file {
    struct sa_buffer data; /* the file, uncompressed */
    struct sa_file_type *types, period_type;
    struct sa_file_mapping *mappings;
    struct sa_file_function *functions;
    struct sa_file_location *locations;
    struct sa_file_sample *samples;
    struct sa_file_label *labels;
    uint32_t *frames;      /* indices of locations */
    uint32_t *lines;       /* indices of functions */
    int64_t *line_numbers; /* of the same elements; 0: not known */
    int64_t *values;
    struct sa_file_single *singles; /* a file may have none */
    struct sa_sums *sums;
    const char **comments;
    const char *default_type; /* "": none */
    int64_t period, time_ns, duration_ns;
    uint32_t type_count, mapping_count, function_count, location_count, sample_count, label_count;
    uint32_t frame_count, line_count, value_count, comment_count, single_count, sum_count;
    bool difference;             /* of other profiles: a value is negative */
    struct sa_buffer memory[15]; /* of these arrays */
};

/* Reads a file, gzip or plain. False: *e says why, and there is nothing to free. */
bool sa_profile_file_read(struct sa_profile_file *ret, const char *path, struct sa_error *e);

/* The same of bytes in memory. */
bool sa_profile_file_parse(struct sa_profile_file *ret, const void *data, size_t bytes,
                           struct sa_error *e);

void sa_profile_file_free(struct sa_profile_file *file);

/* The interval of sampling in bytes that are allocated; 0: sampling was off, or is by something
 * else, as time. */
int64_t sa_file_interval_bytes(const struct sa_profile_file *file);

/* The number that a label of a sample has, or 0; its text, or NULL. */
int64_t sa_file_number(const struct sa_profile_file *file, const struct sa_file_sample *sample,
                       const char *key);
const char *sa_file_text(const struct sa_profile_file *file, const struct sa_file_sample *sample,
                         const char *key);

/* The PID of the process whose profile salloc has written, or -1. */
long sa_file_pid(const struct sa_profile_file *file);

/* What a location is called: its innermost function, else the file that has it. */
const char *sa_file_location_name(const struct sa_profile_file *file,
                                  const struct sa_file_location *location);

/* The program or library that has a location, as the file names it. */
const char *sa_file_library_name(const struct sa_profile_file *file,
                                 const struct sa_file_location *location);

/* Index of the type of blocks that belongs to a type of bytes, as inuse_objects to inuse_space, or
 * of a type of blocks itself; SA_FILE_NONE: there is none. */
uint32_t sa_file_objects(const struct sa_profile_file *file, uint32_t metric);

/* Adds to a sum, which ends at the largest number there is. */
static inline void sa_file_add(int64_t *sum, int64_t value)
{
    if (__builtin_add_overflow(*sum, value, sum))
        *sum = value < 0 ? INT64_MIN : INT64_MAX;
}

/* Index of the sample type of this name, or SA_FILE_NONE. NULL: the one that is shown first. */
uint32_t sa_file_metric(const struct sa_profile_file *file, const char *name);

/* The same for a user who names the metric. SA_FILE_NONE: *e says which ones the file has, which is
 * called `what`. */
uint32_t sa_file_find_metric(const struct sa_profile_file *file, const char *name, const char *what,
                             struct sa_error *e);

#endif
