/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What earlier sweeps have found (sweep.h). A process that has used no CPU time since then has not
 * changed its heap, so it need not be read again. What the kernel changes without it, such as how
 * much of its memory is resident, is at most SA_SWEEP_CACHE_SECONDS old.
 *
 * The CPU time is exact to the nanosecond, where the kernel's scheduler has a clock that is.
 * Another process that has got the PID meanwhile has another.
 */
#ifndef SA_TOOL_READING_SWEEP_CACHE_H
#define SA_TOOL_READING_SWEEP_CACHE_H

#include "tool/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define SA_SWEEP_CACHE_SECONDS 300

/* A process at a moment. */
struct sa_sweep_moment {
    int64_t pid;
    int64_t cpu_ns;  /* CPU time of all of its threads */
    int64_t read_ns; /* of the monotonic clock */
};

struct sa_sweep_cache_entry {
    struct sa_sweep_moment at;
    uint32_t code; /* enum sa_exit: DONE, or NOT_ON_IT */
    uint32_t bytes;
    char *data;
};

/* Entries in the order of PIDs. Those that were loaded have their data in the file's mapping, the
 * others of malloc. */
struct sa_sweep_cache {
    struct sa_sweep_cache_entry *of;
    size_t count, cap;
    char *map;
    size_t map_bytes;
};

/* The process now; false: it has gone. To be called before the process is read. */
bool sa_sweep_moment_of(pid_t pid, struct sa_sweep_moment *ret);

/* What is known of a process, if it still holds; or NULL. */
struct sa_sweep_cache_entry *sa_sweep_cache_find(const struct sa_sweep_cache *cache,
                                                 const struct sa_sweep_moment *now);

/* Adds what was read, of another process than any entry so far: a later PID. Only what ended with
 * DONE or NOT_ON_IT is kept. False: no memory. */
bool sa_sweep_cache_add(struct sa_sweep_cache *cache, const struct sa_sweep_moment *at,
                        uint32_t code, const char *data, size_t bytes);

/* Moves an entry from one to another in the same way. sa_sweep_cache_pass must follow. */
bool sa_sweep_cache_move(struct sa_sweep_cache *cache, struct sa_sweep_cache_entry *entry);

/* Frees what has not been moved, and hands the mapping over. */
void sa_sweep_cache_pass(struct sa_sweep_cache *from, struct sa_sweep_cache *to);

void sa_sweep_cache_free(struct sa_sweep_cache *cache);

/* To a file, and from one. What makes no sense is not known. */
bool sa_sweep_cache_save(const struct sa_sweep_cache *cache, int fd);
void sa_sweep_cache_load(struct sa_sweep_cache *cache, int fd);

#endif
