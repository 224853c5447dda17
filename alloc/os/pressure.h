/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watches memory pressure as the kernel reports it (PSI: the time that tasks wait for memory): that
 * of the process's control group of version 2 if there is one, else that of the system.
 *
 * Where the kernel allows a trigger (without privileges since Linux 6.4), it wakes the thread that
 * waits. Elsewhere the thread reads the time that tasks have waited. A struct sa_pressure belongs
 * to one thread.
 */
#ifndef SA_OS_PRESSURE_H
#define SA_OS_PRESSURE_H

#include "alloc/os/cgroup.h"

enum sa_pressure_source {
    SA_PRESSURE_NONE,     /* the kernel reports nothing */
    SA_PRESSURE_READ,     /* the thread reads the file */
    SA_PRESSURE_TRIGGERED /* the kernel wakes the thread */
};

/* The state of watching. All zero: not begun. */
struct sa_pressure {
    enum sa_pressure_source source;
    int fd;           /* the trigger's descriptor */
    uint64_t file[2]; /* device and inode of fd: programs close descriptors that they do not know */
    uint64_t waited_us, then_ns; /* READ: the last reading and its time */
    char path[SA_CGROUP_PATH_MAX];
};

/* The source that is in use, enum sa_pressure_source, for reports. Atomic, relaxed; written by the
 * thread that watches. */
extern uint32_t sa_pressure_watched;

/* Chooses the source and begins to watch. root: a folder that comes before every path, for tests;
 * else "". */
void sa_pressure_begin(struct sa_pressure *p, const char *root);

/* Waits for pressure, for at most ms milliseconds. Returns whether there was any. */
bool sa_pressure_wait(struct sa_pressure *p, unsigned ms);

/* Ends watching. Closes the trigger, unless the program has closed it. */
void sa_pressure_end(struct sa_pressure *p);

#endif
