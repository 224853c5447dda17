/* SPDX-License-Identifier: Apache-2.0 */
/*
 * System calls by name. They are made as instructions (alloc/base/syscall.h), not through libc:
 * programs interpose libc's functions with hooks that allocate. Results are the kernel's: 0 or a
 * value, or a negative errno. errno itself stays as it is. What a filter may kill the process for
 * (filter.h) is not called behind a filter, where that is said; the rest is for whoever asks for
 * it.
 */
#ifndef SA_OS_SYS_H
#define SA_OS_SYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ns < 0 waits without limit. Returns at once if *word != expect. */
void sa_sys_futex_wait(uint32_t *word, uint32_t expect, int64_t ns);
void sa_sys_futex_wake(uint32_t *word, int waiters);

void *sa_sys_mmap(void *hint, size_t bytes, int prot, int flags); /* NULL on failure */
int sa_sys_munmap(void *p, size_t bytes);
int sa_sys_madvise(void *p, size_t bytes, int advice); /* -EPERM if it must not be made */
int sa_sys_mprotect(void *p, size_t bytes, int prot);
int sa_sys_msync(void *p, size_t bytes, int flags);
bool sa_sys_is_readable(const void *p); /* the page of p */
void *sa_sys_mremap(void *old, size_t old_bytes, size_t new_bytes, int flags, void *target);
int sa_sys_membarrier(int command, unsigned flags, int cpu);
void sa_sys_name_mapping(void *p, size_t bytes, const char *name); /* not behind a filter */

/* A bound on the CPU numbers that the kernel can ever report (UINT_MAX if it is not known). */
unsigned sa_sys_cpu_numbers(void);

/* Sets bit i of ret for each CPU i < 8 * bytes that this thread may run on; the bytes that were
 * written, or -errno. */
int sa_sys_affinity(void *ret, size_t bytes);

/* Reads at most cap - 1 bytes of a small file and terminates them; the length or -errno. */
long sa_sys_read_file(const char *path, char *buf, size_t cap);

/* Files. Paths are relative to the current folder; close-on-exec is always set. */
int sa_sys_open(const char *path, int flags, int mode);
int sa_sys_close(int fd);
long sa_sys_read(int fd, void *buf, size_t bytes);
long sa_sys_pread(int fd, void *buf, size_t bytes, uint64_t offset);
long sa_sys_write(int fd, const void *buf, size_t bytes);
int sa_sys_link(const char *from, const char *to); /* follows a symbolic link at from */
int sa_sys_rename(const char *from, const char *to);
int sa_sys_unlink(const char *path);
long sa_sys_readlink(const char *path, char *buf, size_t cap); /* terminated; the length */
int sa_sys_file_mode(const char *path);            /* st_mode, not following a link at the end */
bool sa_sys_file_is_of_proc(const char *path);     /* it lies in the file system of processes */
int sa_sys_open_mode(int fd);                      /* st_mode of what is open */
int sa_sys_file_identity(int fd, uint64_t ret[2]); /* the same for what is the same file */
int sa_sys_file_flags(int fd);                     /* as fcntl's F_GETFL */
int sa_sys_file_copy(int fd, int least);           /* a new descriptor, not below that */
long sa_sys_file_folder(char *buf, size_t cap);    /* the current one; its length with the end */
/* As sa_sys_write, but what would raise SIGPIPE or SIGXFSZ gives the error alone. */
long sa_sys_file_write_quiet(int fd, const void *buf, size_t bytes);
int sa_sys_poll(int fd, int events, unsigned ms); /* those that there are; 0: none in time */
int sa_sys_ioctl(int fd, unsigned long request, void *arg);
void sa_sys_name_thread(const char *name); /* this one; 15 characters */
void sa_sys_random(void *ret,
                   size_t bytes); /* does not wait; ret is unchanged if there are none yet */
int sa_sys_pid(void);
bool sa_sys_is_first_thread(void);   /* of the process; also if the kernel does not say */
uint32_t sa_sys_tid(void);           /* 0 if the kernel does not say, or must not be asked */
uint64_t sa_sys_unblock(int signal); /* in this thread; the mask before */
void sa_sys_set_mask(uint64_t mask); /* of blocked signals, in this thread */
int sa_sys_signal_stack(const void *stack,
                        void *ret_before);      /* stack_t of this thread; NULL: none */
int sa_sys_signal_self(int number, void *info); /* to this thread; info: a siginfo_t */
uint64_t sa_sys_file_limit(void);               /* bytes that a file may grow to before SIGXFSZ */

#endif
