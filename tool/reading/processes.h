/* SPDX-License-Identifier: Apache-2.0 */
/* The processes of the system, as the kernel tells of them. */
#ifndef SA_TOOL_READING_PROCESSES_H
#define SA_TOOL_READING_PROCESSES_H

#include <stddef.h>
#include <stdint.h>
#include <stdbool.h>
#include <sys/types.h>

#define SA_PROCESS_NAME 32

struct sa_process {
    pid_t pid;
    char name[SA_PROCESS_NAME]; /* without what would disturb a terminal, a label or a page */
    size_t resident;            /* bytes */
    uint64_t started; /* when, in the kernel's ticks: tells two processes of one PID apart */
};

/* The PIDs of all processes, in order, to be freed; NULL: no memory, or no /proc. */
pid_t *sa_processes_list(size_t *ret_count);

/* Whether a process has the memory of its parent, as a child of vfork has until it runs a program:
 * the parent stands for both. False: no, or the kernel does not say. */
bool sa_process_shares_memory(pid_t pid);

/* The name of a process; "?": not known. */
void sa_process_read_name(pid_t pid, char ret[SA_PROCESS_NAME]);

/* What is not known is "?" or 0. */
void sa_process_read(pid_t pid, struct sa_process *ret);

#endif
