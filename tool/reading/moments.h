/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a process has in use, read again and again: rows of samples that have all properties in
 * common, and how many samples each row has at each moment. Memory is bounded: where there are too
 * many moments, every second one is forgotten, and the others are twice as far apart.
 */
#ifndef SA_TOOL_READING_MOMENTS_H
#define SA_TOOL_READING_MOMENTS_H

#include "sampling/stack/unloaded.h"
#include "tool/file/profile_file.h"
#include "tool/reading/reading.h"

#define SA_MOMENTS_MAX        240  /* of a process that is read */
#define SA_MOMENTS_ROOM       2000 /* of an event trace */
#define SA_MOMENT_ENTRIES_MAX (1u << 20)

/* A row that has samples at a moment. */
struct sa_moment_entry {
    uint32_t row;
    uint32_t samples;
};

struct sa_moment {
    int64_t time_ns; /* since 1970 */
    struct sa_moment_entry *entries;
    size_t count;
    struct sa_unseen unseen;
};

/* All zero is empty. */
struct sa_moments {
    struct sa_buckets rows;
    size_t row_count; /* of a profile of the rows, once there is one; ... */
    double *p;        /* ... and their probabilities of a sample */
    struct sa_moment of[SA_MOMENTS_ROOM];
    size_t count, entries;       /* moments; entries of all of them */
    unsigned stride;             /* how many readings there are for each moment; 0: none yet */
    uint64_t readings, left_out; /* left out: those during which too much changed */
    struct sa_mappings mappings; /* of the last reading, */
    struct sa_unloaded unloaded; /* as the next */
    int pid;
    int64_t interval;
};

/* Whether there are two moments or more, which make a time line. */
static inline bool sa_moments_are_many(const struct sa_moments *m)
{
    return m->count > 1;
}

/* Whether the process still runs the program that was read. */
bool sa_moments_are_live(const struct sa_moments *m);

/*
 * Reads a process. A reading that is not whole is no moment, as its trough would be wrong. If it
 * runs another program than before, what was read before is forgotten. False: it cannot be read
 * now, or there is no memory, and *e says which.
 */
bool sa_moments_add(struct sa_moments *m, pid_t pid, struct sa_error *e);

/* Makes a profile file of the rows, in their order, with lines and names. Each row has the most
 * samples that it has at a moment, and none if that is 0. root: as for sa_add_lines, or NULL. */
bool sa_moments_file(struct sa_moments *m, const char *root, struct sa_profile_file *ret,
                     struct sa_error *e);

void sa_moments_free(struct sa_moments *m);

#endif
