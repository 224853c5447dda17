/* SPDX-License-Identifier: Apache-2.0 */
/* Whole writes, and small files of /proc. No state. */
#ifndef SA_TOOL_BASE_IO_H
#define SA_TOOL_BASE_IO_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Writes all bytes, also in several pieces. 0, or -errno. */
int sa_io_write_all(int fd, const void *data, size_t bytes);

/* Whether a thread, or the first thread of a process, has ended; true also if there is none. */
bool sa_io_has_ended(pid_t tid);

/* A thread of the process that lives. This is the process's own PID, unless its first thread has
 * ended before the others: the kernel then shows no memory and no files under the PID. */
pid_t sa_io_living(pid_t pid);

#define SA_PROC_PATH 96

/* The path of /proc/PID/NAME, by a thread that lives. Returns ret. */
const char *sa_io_proc_path(char ret[SA_PROC_PATH], pid_t pid, const char *name);

/* Reads /proc/PID/NAME as a string of less than cap bytes. False: there is none, or it is empty. */
bool sa_io_read_proc(pid_t pid, const char *name, char *ret, size_t cap);

/* The PID that a process has in its own namespace, as in a container; 0: not known. */
long sa_io_own_pid(pid_t pid);

/* When a process started, in the kernel's ticks since its boot; 0: not known. */
unsigned long long sa_io_started(pid_t pid);

#endif
