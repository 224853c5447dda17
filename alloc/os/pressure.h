/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory pressure as the kernel tells it (PSI: the time that tasks wait for memory), of the
 * process's control group where it has one of version 2, else of the system. Belongs to one thread.
 *
 * The kernel wakes who waits for it where it allows that (a trigger; without privileges since
 * Linux 6.4); elsewhere the time waited so far is read now and then.
 */
#ifndef SA_OS_PRESSURE_H
#define SA_OS_PRESSURE_H

#include "alloc/os/cgroup.h"

enum sa_pressure_source {
    SA_PRESSURE_NONE,     /* the kernel tells nothing */
    SA_PRESSURE_READ,     /* the file is read */
    SA_PRESSURE_TRIGGERED /* the kernel wakes */
};

/* All zero: not begun. */
struct sa_pressure {
    enum sa_pressure_source source;
    int fd;                      /* of the trigger */
    uint64_t file[2];            /* what fd is: programs close files that they do not know */
    uint64_t waited_us, then_ns; /* READ: what was read last, and when */
    char path[SA_CGROUP_PATH_MAX];
};

/* What is watched now, enum sa_pressure_source; atomic, relaxed. For reports. */
extern uint32_t sa_pressure_watched;

/* Finds out what there is. root: before every path; "" but in tests. */
void sa_pressure_begin(struct sa_pressure *p, const char *root);

/* Waits for pressure, for at most ms milliseconds: true if there is. */
bool sa_pressure_wait(struct sa_pressure *p, unsigned ms);

/* Closes the file, unless the program has. */
void sa_pressure_end(struct sa_pressure *p);

#endif
