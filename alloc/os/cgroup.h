/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits that the process's control group has on memory, read from /proc and the group's files. No state, no
 * allocation, a few dozen system calls; 20 KiB of stack.
 */
#ifndef SA_OS_CGROUP_H
#define SA_OS_CGROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SA_CGROUP_NONE UINT64_MAX

#define SA_CGROUP_PATH_MAX 1024

struct sa_cgroup_limits {
    uint64_t max;  /* memory that the group may have; SA_CGROUP_NONE: there is no limit */
    uint64_t high; /* beyond which it is slowed down */
};

/*
 * The least of the group and those that it is in, as far as they can be seen, version 1 and 2. What is missing or makes
 * no sense (less than 1 MiB, more than 2^62, not a number) is no limit. root: before every path; "" but in tests.
 */
void sa_cgroup_read_limits(const char *root, struct sa_cgroup_limits *ret);

/* The folder of the process's group of version 2. False if there is none that can be seen. */
bool sa_cgroup_folder(const char *root, char ret[SA_CGROUP_PATH_MAX]);

#endif
