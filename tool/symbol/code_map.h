/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of generated code: the map that a process with a just-in-time compiler writes for perf,
 * /tmp/perf-PID.map. Each line is an address, a length, both in hexadecimal, and a name. Where
 * lines overlap, the last one holds, since code is replaced. A map is not trusted.
 */
#ifndef SA_TOOL_SYMBOL_CODE_MAP_H
#define SA_TOOL_SYMBOL_CODE_MAP_H

#include "sampling/symbolize/symbols.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define SA_CODE_NAME_MAX 1024 /* bytes of a name; the rest is cut */

struct sa_code_map {
    char *text;
    size_t bytes;
};

/* An address, and where its name lies in the text of the map; name NULL: it has none. */
struct sa_code {
    uint64_t address;
    const char *name;
    size_t bytes;
};

/* Reads the map of a process as it is in the process's own file system, which may be that of a
 * container. A map that belongs to another user, or was last written to before the process
 * started, is not used. False: there is none. */
bool sa_code_map_of_process(struct sa_code_map *map, pid_t pid);

/* Reads the map of a process that may have ended, from /tmp. A map that was written to after
 * `time_ns`, since 1970, or that belongs neither to this user nor to root, is not used. */
bool sa_code_map_of_past(struct sa_code_map *map, long pid, int64_t time_ns);

/* Names addresses, which are sorted. Names have no control characters. False: no memory. */
bool sa_code_map_find(const struct sa_code_map *map, struct sa_code *codes, size_t count);

/* Names addresses that a writer of profiles asks for, as sa_symbols_find does; what has no memory
 * gets no name. */
void sa_code_map_symbols(const struct sa_code_map *map, struct sa_symbol *symbols, size_t count,
                         struct sa_buffer *names);

void sa_code_map_free(struct sa_code_map *map);

#endif
