/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of this process in /proc. The kernel has those about memory, descriptors and groups
 * below the first thread, and empty or none once that has ended (pthread_exit in main). Then they
 * are read below the calling thread. No state.
 */
#ifndef SA_OS_OWN_PROC_H
#define SA_OS_OWN_PROC_H

#include <stddef.h>

/* The folder, as "/proc/self". Asks the kernel by openat, on other threads than the first. */
const char *sa_own_proc(void);

/* Opens a file of it to be read; reads it into a buffer with a zero at the end; reads a link. As
 * the functions of alloc/os/sys.h. name: as "maps", at most 39 bytes. */
int sa_own_proc_open(const char *name);
long sa_own_proc_read(const char *name, char *buf, size_t cap);
long sa_own_proc_link(const char *name, char *buf, size_t cap);

#endif
