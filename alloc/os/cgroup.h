/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the memory limits of the process's control group, and how much is left, from /proc and the
 * group's files. Takes a few dozen system calls and no allocation. All state belongs to the caller,
 * without a lock. Functions with a struct sa_cgroup take 4 KiB of stack, the others 16 KiB.
 */
#ifndef SA_OS_CGROUP_H
#define SA_OS_CGROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SA_CGROUP_NONE UINT64_MAX

#define SA_CGROUP_PATH_MAX 1024
#define SA_CGROUP_LINE_MAX 4096

/* A file that is read line by line. */
struct sa_cgroup_lines {
    int fd;
    size_t len; /* bytes in `text` that were read and not yet returned */
    char text[SA_CGROUP_LINE_MAX];
    char line[SA_CGROUP_LINE_MAX];
    char group[SA_CGROUP_PATH_MAX]; /* paths: of a group, and of a file in its folder */
    char path[SA_CGROUP_PATH_MAX];
};

/* The process's groups in both hierarchies; index 0: version 1, index 1: version 2. */
struct sa_cgroup {
    char folders[2][SA_CGROUP_PATH_MAX];
    size_t points[2]; /* bytes of the mount point in the path; 0: the group is not visible */
    bool seen;        /* the last reading found a file for a limit, even if the file says "max" */
    struct sa_cgroup_lines lines;
};

/* The room of the group, or of the ancestor that has the least room. */
struct sa_cgroup_room {
    uint64_t limit; /* bytes; SA_CGROUP_NONE: no group has a limit */
    int64_t room; /* bytes that may still be taken; negative: beyond memory.high or a limit that was
                     lowered */
};

struct sa_cgroup_limits {
    uint64_t max;  /* bytes; SA_CGROUP_NONE: there is no limit */
    uint64_t high; /* bytes beyond which the kernel slows the group down, or SA_CGROUP_NONE */
};

/*
 * Reads the lowest limits of the group and its visible ancestors, of version 1 and 2. A limit that
 * is missing, not a number, below 1 MiB or above 2^62 counts as none. root: a folder that comes
 * before every path, for tests; else "".
 */
void sa_cgroup_read_limits(const char *root, struct sa_cgroup_limits *ret);

/* Finds the folders of the process's groups. */
void sa_cgroup_find(struct sa_cgroup *g, const char *root);

/*
 * Reads the limit (memory.max, memory.high, memory.limit_in_bytes) and the room of the group that
 * has the least room. Cached file pages count as free, those in active use by half. Requires
 * sa_cgroup_find.
 */
void sa_cgroup_read_room(struct sa_cgroup *g, struct sa_cgroup_room *ret);

/* Finds the folder of the process's group of version 2. False: none is visible. */
bool sa_cgroup_folder(const char *root, char ret[SA_CGROUP_PATH_MAX]);

#endif
