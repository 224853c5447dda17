/* SPDX-License-Identifier: Apache-2.0 */
/* The system calls of sys.h. The only variable belongs to sa_sys_copy_memory. */
#include "alloc/os/sys.h"

#include "alloc/base/atomic.h"
#include "alloc/base/bits.h"
#include "alloc/base/syscall.h"
#include "alloc/os/filter.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <linux/magic.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/random.h>
#include <sys/vfs.h>
#include <sys/uio.h>
#include <time.h>

#ifndef PR_SET_NAME
#define PR_SET_NAME 15
#endif
#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41
#endif
#ifndef PR_SET_VMA_ANON_NAME
#define PR_SET_VMA_ANON_NAME 0
#endif

#define ADVICE_TRIES                                                                               \
    10 /* madvise fails with EAGAIN while the kernel is short of memory for itself */

SA_RARE void sa_sys_futex_wait(uint32_t *word, uint32_t expect, int64_t ns)
{
    struct timespec ts = {ns / 1000000000, ns % 1000000000};

    sa_syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expect, ns < 0 ? NULL : &ts, NULL, 0);
}

SA_RARE void sa_sys_futex_wake(uint32_t *word, int waiters)
{
    sa_syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, waiters, NULL, NULL, 0);
}

void *sa_sys_mmap(void *hint, size_t bytes, int prot, int flags)
{
    long r = sa_syscall(SYS_mmap, hint, bytes, prot, flags, -1, 0);

    return sa_syscall_failed(r) ? NULL : (void *)r;
}

SA_RARE int sa_sys_munmap(void *p, size_t bytes)
{
    return (int)sa_syscall(SYS_munmap, p, bytes);
}

int sa_sys_madvise(void *p, size_t bytes, int advice)
{
    bool listed = advice == MADV_DONTNEED || advice == MADV_FREE;
    long r = -EAGAIN;

    if (!listed && sa_filtered())
        return -EPERM;
    for (int i = 0; i < ADVICE_TRIES && r == -EAGAIN; i++)
        r = sa_syscall(SYS_madvise, p, bytes, advice);
    return (int)(listed ? r : sa_filter_result(r));
}

#ifndef SYS_process_madvise /* the kernel's headers are older than Linux 5.10 */
#define SYS_process_madvise 440
#endif

SA_RARE long sa_sys_release_runs(const struct iovec *runs, unsigned count)
{
    const int this_process = -10000; /* PIDFD_SELF */

    if (sa_filtered())
        return -EPERM;
    return sa_syscall(SYS_process_madvise, this_process, runs, count, MADV_DONTNEED, 0);
}

int sa_sys_mprotect(void *p, size_t bytes, int prot)
{
    return (int)sa_syscall(SYS_mprotect, p, bytes, prot);
}

SA_RARE int sa_sys_msync(void *p, size_t bytes, int flags)
{
    return (int)sa_syscall(SYS_msync, p, bytes, flags);
}

SA_COLD int sa_sys_lock_on_fault(void *p, size_t bytes)
{
    return sa_filtered() ? -EPERM : (int)sa_syscall(SYS_mlock2, p, bytes, MLOCK_ONFAULT);
}

SA_COLD int sa_sys_unlock(void *p, size_t bytes)
{
    return sa_filtered() ? -EPERM : (int)sa_syscall(SYS_munlock, p, bytes);
}

/*
 * Asks the kernel to compare the word with a number, and then to wake and move no thread: a futex
 * operation that reads the word and changes nothing. A filter that allows locks allows this call.
 */
bool sa_sys_is_readable(const void *p)
{
    const void *word = (const void *)((uintptr_t)p & ~(uintptr_t)3);

    return sa_syscall(SYS_futex, word, FUTEX_CMP_REQUEUE_PRIVATE, 0, 0, word, 0) != -EFAULT;
}

SA_RARE long sa_sys_copy_memory(uint32_t tid, void *to, const void *from, size_t bytes)
{
    static unsigned char can; /* atomic, relaxed; 0: not known yet */
    enum { YES = 1, NO };
    struct iovec local = {to, bytes}, remote = {(void *)from, bytes};
    long copied;

    if (sa_load_relaxed(&can) == 0)
        sa_store_relaxed(&can, sa_sys_has_filter() ? NO : YES);
    if (sa_load_relaxed(&can) == NO || sa_filtered())
        return -EPERM;
    copied = sa_syscall(SYS_process_vm_readv, tid, &local, 1, &remote, 1, 0);
    if (copied == -EPERM || copied == -ENOSYS)
        sa_store_relaxed(&can, NO);
    return copied;
}

SA_RARE void *sa_sys_mremap(void *old, size_t old_bytes, size_t new_bytes, int flags, void *target)
{
    long r = sa_syscall(SYS_mremap, old, old_bytes, new_bytes, flags, target);

    return sa_syscall_failed(r) ? NULL : (void *)r;
}

int sa_sys_membarrier(int command, unsigned flags, int cpu)
{
    return (int)sa_syscall(SYS_membarrier, command, flags, cpu);
}

SA_RARE void sa_sys_name_mapping(void *p, size_t bytes, const char *name)
{
    static bool no_names; /* the kernel gives anonymous memory no names; atomic, relaxed */

    if (sa_load_relaxed(&no_names) || sa_filtered())
        return;
    if (sa_syscall(SYS_prctl, PR_SET_VMA, PR_SET_VMA_ANON_NAME, p, bytes, name) == -EINVAL)
        sa_store_relaxed(&no_names, true);
}

unsigned sa_sys_cpu_numbers(struct sa_sys_cpus *ret)
{
    unsigned char mask[2048]; /* room for twice the CPUs of the largest kernel configuration */
    /*
     * The kernel copies its own mask, which has a bit for every possible CPU, and returns the
     * mask's length. Only the length counts: the CPUs in the mask, those allowed now, may change
     * later.
     */
    int bytes = sa_sys_affinity(mask, sizeof(mask));

    if (bytes <= 0)
        return UINT_MAX;
    memcpy(ret->bits, mask, sa_min((size_t)bytes, sizeof(ret->bits)));
    return (unsigned)bytes * 8;
}

SA_RARE int sa_sys_affinity(void *ret, size_t bytes)
{
    return (int)sa_syscall(SYS_sched_getaffinity, 0, bytes, ret);
}

long sa_sys_read_file(const char *path, char *buf, size_t cap)
{
    size_t len = 0;
    long fd = sa_syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0), n;

    if (fd < 0)
        return fd;
    while (len + 1 < cap) {
        n = sa_syscall(SYS_read, fd, buf + len, cap - 1 - len);
        if (n == -EINTR)
            continue;
        if (n <= 0)
            break;
        len += (size_t)n;
    }
    buf[len] = '\0';
    sa_syscall(SYS_close, fd);
    return (long)len;
}

SA_RARE bool sa_sys_has_filter(void)
{
    static const char field[] = "\nSeccomp:\t"; /* 0: none */
    enum { FIELD = sizeof(field) - 1 };
    char text[FIELD + 96], *at = NULL; /* stacks may be small */
    size_t kept = 0;
    long fd, got = 0;

    if (sa_filtered())
        return true;
    fd = sa_syscall(SYS_openat, AT_FDCWD, "/proc/self/status", O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0)
        return true;
    while (!at && (got = sa_syscall(SYS_read, fd, text + kept, sizeof(text) - 1 - kept)) > 0) {
        kept += (size_t)got;
        text[kept] = '\0';
        at = strstr(text, field);
        if (!at || !at[FIELD]) { /* the rest of it may be in what is read next */
            size_t rest = sa_min(kept, (size_t)FIELD);

            memmove(text, text + kept - rest, rest);
            kept = rest;
            at = NULL;
        }
    }
    sa_syscall(SYS_close, fd);
    return !at || at[FIELD] != '0';
}

SA_RARE int sa_sys_open(const char *path, int flags, int mode)
{
    return (int)sa_syscall(SYS_openat, AT_FDCWD, path, flags | O_CLOEXEC, mode);
}

SA_RARE int sa_sys_close(int fd)
{
    return (int)sa_syscall(SYS_close, fd);
}

SA_RARE long sa_sys_read(int fd, void *buf, size_t bytes)
{
    return sa_syscall(SYS_read, fd, buf, bytes);
}

SA_RARE long sa_sys_pread(int fd, void *buf, size_t bytes, uint64_t offset)
{
    return sa_syscall(SYS_pread64, fd, buf, bytes, offset);
}

SA_RARE long sa_sys_write(int fd, const void *buf, size_t bytes)
{
    return sa_syscall(SYS_write, fd, buf, bytes);
}

SA_RARE int sa_sys_link(const char *from, const char *to)
{
    return (int)sa_syscall(SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, AT_SYMLINK_FOLLOW);
}

SA_RARE int sa_sys_rename(const char *from, const char *to)
{
    return (int)sa_syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

SA_RARE int sa_sys_unlink(const char *path)
{
    return (int)sa_syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}

SA_RARE long sa_sys_readlink(const char *path, char *buf, size_t cap)
{
    long n = sa_syscall(SYS_readlinkat, AT_FDCWD, path, buf, cap - 1);

    if (n < 0)
        return n;
    buf[n] = '\0';
    return n;
}

SA_RARE int sa_sys_file_mode(const char *path)
{
    struct stat st; /* libc's struct is the kernel's on both architectures */

    long r = sa_syscall(SYS_newfstatat, AT_FDCWD, path, &st, AT_SYMLINK_NOFOLLOW);

    return r < 0 ? (int)r : (int)st.st_mode;
}

SA_RARE bool sa_sys_file_is_trusted(const char *path)
{
    struct stat st;

    return sa_syscall(SYS_newfstatat, AT_FDCWD, path, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
           (st.st_uid == 0 || (long)st.st_uid == sa_syscall(SYS_geteuid));
}

SA_RARE bool sa_sys_file_is_of_proc(const char *path)
{
    struct statfs fs;

    return sa_syscall(SYS_statfs, path, &fs) == 0 && fs.f_type == PROC_SUPER_MAGIC;
}

SA_RARE int sa_sys_file_flags(int fd)
{
    return (int)sa_syscall(SYS_fcntl, fd, F_GETFL);
}

SA_RARE int sa_sys_file_copy(int fd, int min)
{
    return (int)sa_syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, min);
}

SA_RARE long sa_sys_file_folder(char *buf, size_t cap)
{
    return sa_syscall(SYS_getcwd, buf, cap);
}

SA_RARE long sa_sys_file_write_quiet(int fd, const void *buf, size_t bytes)
{
    static const struct timespec at_once;
    uint64_t both = 1ull << (SIGPIPE - 1) | 1ull << (SIGXFSZ - 1), before, pending = 0;
    long n;

    sa_syscall(SYS_rt_sigprocmask, SIG_BLOCK, &both, &before, sizeof(both));
    sa_syscall(SYS_rt_sigpending, &pending, sizeof(pending));
    n = sa_sys_write(fd, buf, bytes);
    both &= ~pending; /* a signal that was pending before is the program's */
    if ((n == -EPIPE || n == -EFBIG) && both)
        sa_syscall(SYS_rt_sigtimedwait, &both, NULL, &at_once, sizeof(both));
    sa_syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof(before));
    return n;
}

void sa_sys_random(void *ret, size_t bytes)
{
    sa_syscall(SYS_getrandom, ret, bytes, GRND_NONBLOCK);
}

SA_RARE int sa_sys_open_mode(int fd)
{
    struct stat st;
    long failed = sa_syscall(SYS_newfstatat, fd, "", &st, AT_EMPTY_PATH);

    return failed ? (int)failed : (int)st.st_mode;
}

SA_RARE int sa_sys_file_identity(int fd, uint64_t ret[2])
{
    struct stat st;
    long r = sa_syscall(SYS_newfstatat, fd, "", &st, AT_EMPTY_PATH);

    if (r < 0)
        return (int)r;
    ret[0] = st.st_dev;
    ret[1] = st.st_ino;
    return 0;
}

SA_RARE int sa_sys_poll(int fd, int events, unsigned ms)
{
    struct timespec ts = {ms / 1000, (long)(ms % 1000) * 1000000};
    struct pollfd p = {.fd = fd, .events = (short)events};
    long n = sa_syscall(SYS_ppoll, &p, 1, &ts, NULL, 0);

    return n < 0 ? (int)n : n ? p.revents : 0;
}

SA_RARE int sa_sys_ioctl(int fd, unsigned long request, void *arg)
{
    return (int)sa_syscall(SYS_ioctl, fd, request, arg);
}

SA_RARE void sa_sys_name_thread(const char *name)
{
    sa_syscall(SYS_prctl, PR_SET_NAME, name, 0, 0, 0);
}

SA_RARE int sa_sys_pid(void)
{
    return (int)sa_syscall(SYS_getpid);
}

bool sa_sys_is_first_thread(void)
{
    long thread = sa_sys_tid();

    return thread == 0 || thread == sa_filter_result(sa_syscall(SYS_getpid));
}

uint32_t sa_sys_tid(void)
{
    long thread = sa_filtered() ? 0 : sa_filter_result(sa_syscall(SYS_gettid));

    return thread > 0 ? (uint32_t)thread : 0;
}

SA_RARE uint64_t sa_sys_unblock(int signal)
{
    uint64_t mask = 1ull << (signal - 1), before = 0;

    sa_syscall(SYS_rt_sigprocmask, SIG_UNBLOCK, &mask, &before, sizeof(mask));
    return before;
}

#define SIGNAL_BIT(number) (1ull << ((number)-1))

SA_RARE uint64_t sa_sys_block_signals(void)
{
    /* A blocked signal of a fault would end the process without its handler. */
    uint64_t mask = ~(SIGNAL_BIT(SIGSEGV) | SIGNAL_BIT(SIGBUS) | SIGNAL_BIT(SIGILL) |
                      SIGNAL_BIT(SIGFPE) | SIGNAL_BIT(SIGTRAP) | SIGNAL_BIT(SIGSYS));
    uint64_t before = 0;

    sa_syscall(SYS_rt_sigprocmask, SIG_BLOCK, &mask, &before, sizeof(mask));
    return before;
}

SA_RARE void sa_sys_set_mask(uint64_t mask)
{
    sa_syscall(SYS_rt_sigprocmask, SIG_SETMASK, &mask, NULL, sizeof(mask));
}

SA_RARE int sa_sys_signal_stack(const void *stack, void *ret_before)
{
    return (int)sa_syscall(SYS_sigaltstack, stack, ret_before);
}

SA_RARE int sa_sys_raise(int number)
{
    return (int)sa_syscall(SYS_tgkill, sa_sys_pid(), sa_syscall(SYS_gettid), number);
}

SA_RARE int sa_sys_signal_self(int number, void *info)
{
    return (int)sa_syscall(SYS_rt_tgsigqueueinfo, sa_sys_pid(), sa_sys_tid(), number, info);
}

SA_RARE uint64_t sa_sys_file_limit(void)
{
    struct rlimit limit; /* 64 bits wide, as the kernel's, on both architectures */

    if (sa_syscall(SYS_prlimit64, 0, RLIMIT_FSIZE, NULL, &limit) != 0)
        return UINT64_MAX;
    return limit.rlim_cur;
}
