/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits that the process's control group has on memory, and how much is left, read from /proc and
 * the group's files. No allocation, a few dozen system calls. Functions that take a struct
 * sa_cgroup use 4 KiB of stack, the others 16.
 */
#ifndef SA_OS_CGROUP_H
#define SA_OS_CGROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SA_CGROUP_NONE UINT64_MAX

#define SA_CGROUP_PATH_MAX 1024
#define SA_CGROUP_LINE_MAX 4096

/* A file that is read by lines. */
struct sa_cgroup_lines {
    int fd;
    size_t len; /* of what has been read */
    char text[SA_CGROUP_LINE_MAX];
    char line[SA_CGROUP_LINE_MAX];
};

/* The process's group in both hierarchies, version 1 and 2. */
struct sa_cgroup {
    char folders[2][SA_CGROUP_PATH_MAX];
    size_t points[2]; /* how much of the path is the mount point; 0: the group cannot be seen */
    bool seen;        /* the last read found a file with a limit, or with "max" */
    struct sa_cgroup_lines lines;
};

/* How much the group, or one that it is in, may still take: of the one that has least left. */
struct sa_cgroup_room {
    uint64_t limit; /* SA_CGROUP_NONE: no group has a limit */
    int64_t room; /* less than 0: it has more than memory.high, or than a limit that was lowered */
};

struct sa_cgroup_limits {
    uint64_t max;  /* memory that the group may have; SA_CGROUP_NONE: there is no limit */
    uint64_t high; /* beyond which it is slowed down */
};

/*
 * The least of the group and those that it is in, as far as they can be seen, version 1 and 2. What
 * is missing or makes no sense (less than 1 MiB, more than 2^62, not a number) is no limit. root:
 * before every path; "" but in tests.
 */
void sa_cgroup_read_limits(const char *root, struct sa_cgroup_limits *ret);

/* Looks where the process's groups lie. */
void sa_cgroup_find(struct sa_cgroup *g, const char *root);

/*
 * The limit (memory.max, memory.high, memory.limit_in_bytes) of the group that has least left, and
 * how much is left: cached files count as free, those in active use by a half. After
 * sa_cgroup_find.
 */
void sa_cgroup_read_room(struct sa_cgroup *g, struct sa_cgroup_room *ret);

/* The folder of the process's group of version 2. False if there is none that can be seen. */
bool sa_cgroup_folder(const char *root, char ret[SA_CGROUP_PATH_MAX]);

#endif
