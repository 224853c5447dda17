/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What earlier sweeps have found (sweep.h). A process that has used no CPU time since then has not
 * changed its heap, so it need not be read again. What the kernel changes without it, such as how
 * much of its memory is resident, is at most SA_KNOWN_SECONDS old.
 *
 * The CPU time is exact to the nanosecond, where the kernel's scheduler has a clock that is.
 * Another process that has got the PID meanwhile has another.
 */
#ifndef SA_TOOL_READING_KNOWN_H
#define SA_TOOL_READING_KNOWN_H

#include "tool/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define SA_KNOWN_SECONDS 300

/* A process at a moment. */
struct sa_known_moment {
    int64_t pid;
    int64_t cpu_ns;  /* CPU time of all of its threads */
    int64_t read_ns; /* of the monotonic clock */
};

struct sa_known_entry {
    struct sa_known_moment at;
    uint32_t code; /* enum sa_exit: DONE, or NOT_ON_IT */
    uint32_t bytes;
    char *data;
};

/* Entries in the order of PIDs. Those that were loaded have their data in the file's mapping, the
 * others of malloc. */
struct sa_known {
    struct sa_known_entry *of;
    size_t count, cap;
    char *map;
    size_t map_bytes;
};

/* The process now; false: it has gone. To be called before the process is read. */
bool sa_known_moment_of(pid_t pid, struct sa_known_moment *ret);

/* What is known of a process, if it still holds; or NULL. */
struct sa_known_entry *sa_known_find(const struct sa_known *known,
                                     const struct sa_known_moment *now);

/* Adds what was read, of another process than any entry so far: a later PID. Only what ended with
 * DONE or NOT_ON_IT is kept. False: no memory. */
bool sa_known_add(struct sa_known *known, const struct sa_known_moment *at, uint32_t code,
                  const char *data, size_t bytes);

/* Moves an entry from one to another in the same way. sa_known_pass must follow. */
bool sa_known_move(struct sa_known *known, struct sa_known_entry *entry);

/* Frees what has not been moved, and hands the mapping over. */
void sa_known_pass(struct sa_known *from, struct sa_known *to);

void sa_known_free(struct sa_known *known);

/* To a file, and from one. What makes no sense is not known. */
bool sa_known_save(const struct sa_known *known, int fd);
void sa_known_load(struct sa_known *known, int fd);

#endif
