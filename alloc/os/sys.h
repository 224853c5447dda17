/* SPDX-License-Identifier: Apache-2.0 */
/*
 * System calls by name. They are instructions (alloc/base/syscall.h), not calls of libc's
 * functions, because programs interpose those with functions that allocate. Each returns what the
 * kernel does: 0 or a value, or a negative errno. errno does not change. Any thread and signal
 * handler; no state.
 *
 * Behind a filter of system calls (filter.h), a call that the filter may not expect is not made if
 * its comment says so. Other functions are for callers that must make the call.
 */
#ifndef SA_OS_SYS_H
#define SA_OS_SYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Waits until a thread wakes this one, at most ns nanoseconds; ns < 0: without limit. Returns at
 * once if *word != expect, and may return early. */
void sa_sys_futex_wait(uint32_t *word, uint32_t expect, int64_t ns);
void sa_sys_futex_wake(uint32_t *word, int waiters);

void *sa_sys_mmap(void *hint, size_t bytes, int prot, int flags); /* NULL: failure */
int sa_sys_munmap(void *p, size_t bytes);
/* Behind a filter, only MADV_DONTNEED and MADV_FREE are made; for other advice returns -EPERM. */
int sa_sys_madvise(void *p, size_t bytes, int advice);
/* MADV_DONTNEED for several ranges of this process; not behind a filter. Returns the bytes, or
 * -errno. */
struct iovec;
long sa_sys_release_runs(const struct iovec *runs, unsigned count);
int sa_sys_mprotect(void *p, size_t bytes, int prot);
int sa_sys_msync(void *p, size_t bytes, int flags);
/* Locks pages as they are touched, also locked ones, or unlocks them; not behind a filter. */
int sa_sys_lock_on_fault(void *p, size_t bytes);
int sa_sys_unlock(void *p, size_t bytes);
bool sa_sys_is_readable(const void *p); /* whether the word at p can be read */

/* Copies memory of the process that may not be there. tid: the calling thread's. Returns the bytes
 * that could be read, or an error; behind a filter, also one from before the program's start,
 * always an error. */
long sa_sys_copy_memory(uint32_t tid, void *to, const void *from, size_t bytes);
void *sa_sys_mremap(void *old, size_t old_bytes, size_t new_bytes, int flags, void *target);
int sa_sys_membarrier(int command, unsigned flags, int cpu);
/* Does nothing behind a filter. */
void sa_sys_name_mapping(void *p, size_t bytes, const char *name);

/* Returns a number above every CPU number that the kernel can report; UINT_MAX: not known. *ret:
 * the CPUs that this thread may run on, of the first 1024; none: not known. */
struct sa_sys_cpus {
    unsigned char bits[128];
};
unsigned sa_sys_cpu_numbers(struct sa_sys_cpus *ret);

/* Sets bit i of ret for each CPU i < 8 * bytes that this thread may run on. Returns the bytes
 * written, or -errno. */
int sa_sys_affinity(void *ret, size_t bytes);

/* Reads at most cap - 1 bytes of a small file, and puts a zero behind them. Returns their number,
 * or -errno. */
long sa_sys_read_file(const char *path, char *buf, size_t cap);

/* Whether the process has a filter of system calls, be it from before it was executed; also true if
 * the kernel does not tell. Reads a file. */
bool sa_sys_has_filter(void);

/* Files. Paths are relative to the current folder; close-on-exec is always set. */
int sa_sys_open(const char *path, int flags, int mode);
int sa_sys_close(int fd);
long sa_sys_read(int fd, void *buf, size_t bytes);
long sa_sys_pread(int fd, void *buf, size_t bytes, uint64_t offset);
long sa_sys_write(int fd, const void *buf, size_t bytes);
int sa_sys_link(const char *from, const char *to); /* follows a symbolic link at `from` */
int sa_sys_rename(const char *from, const char *to);
int sa_sys_unlink(const char *path);
long sa_sys_readlink(const char *path, char *buf, size_t cap); /* with a zero; its length */
int sa_sys_file_mode(const char *path); /* st_mode; of a link at the end of the path, the link's */
bool sa_sys_file_is_trusted(const char *path); /* whether it, not what it links to, belongs to root
                                                  or to the user of this process */
bool sa_sys_file_is_of_proc(const char *path); /* whether it lies in /proc */
int sa_sys_open_mode(int fd);                  /* st_mode of the open file */
int sa_sys_file_identity(int fd, uint64_t ret[2]); /* device and inode */
int sa_sys_file_flags(int fd);                     /* as fcntl's F_GETFL */
int sa_sys_file_copy(int fd, int min);             /* a new descriptor of at least that number */
long sa_sys_file_folder(char *buf, size_t cap); /* the current folder; its length with the zero */
/* As sa_sys_write, but returns -EPIPE and -EFBIG without the signals SIGPIPE and SIGXFSZ. */
long sa_sys_file_write_quiet(int fd, const void *buf, size_t bytes);
int sa_sys_poll(int fd, int events, unsigned ms); /* the events that occurred; 0: none in time */
int sa_sys_ioctl(int fd, unsigned long request, void *arg);
void sa_sys_name_thread(const char *name); /* of this thread; at most 15 characters */
/* Stores random bytes. Does not wait: leaves ret as it is if the kernel has none yet. */
void sa_sys_random(void *ret, size_t bytes);
int sa_sys_pid(void);
bool sa_sys_is_first_thread(void);   /* of the process; true if the kernel does not tell */
uint32_t sa_sys_tid(void);           /* 0: the kernel does not tell, or must not be asked */
uint64_t sa_sys_unblock(int signal); /* in this thread; returns the mask before */
uint64_t sa_sys_block_signals(void); /* but those of faults; returns the mask before */
void sa_sys_set_mask(uint64_t mask); /* sets this thread's blocked signals */
int sa_sys_signal_stack(const void *stack, void *ret_before); /* of this thread; stack_t or NULL */
int sa_sys_raise(int number);                   /* sends it to this thread, as libc's raise does */
int sa_sys_signal_self(int number, void *info); /* sends it to this thread; info: a siginfo_t */
uint64_t sa_sys_file_limit(void);               /* bytes that a file may have before SIGXFSZ */

#endif
