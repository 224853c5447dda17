/* SPDX-License-Identifier: Apache-2.0 */
/* Whole writes, and small files of /proc. No state. */
#ifndef SA_TOOL_BASE_IO_H
#define SA_TOOL_BASE_IO_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Writes all bytes, also in several pieces. 0, or -errno. */
int sa_io_write_all(int fd, const void *data, size_t bytes);

/* Reads /proc/PID/NAME as a string of less than cap bytes. False: there is none, or it is empty. */
bool sa_io_read_proc(pid_t pid, const char *name, char *ret, size_t cap);

/* The PID that a process has in its own namespace, as in a container; 0: not known. */
long sa_io_own_pid(pid_t pid);

/* When a process started, in the kernel's ticks since its boot; 0: not known. */
unsigned long long sa_io_started(pid_t pid);

#endif
