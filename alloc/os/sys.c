/* SPDX-License-Identifier: Apache-2.0 */
/* The system calls of sys.h. Stateless. */
#include "alloc/os/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef PR_SET_NAME
#define PR_SET_NAME 15
#endif
#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41
#endif
#ifndef PR_SET_VMA_ANON_NAME
#define PR_SET_VMA_ANON_NAME 0
#endif

#define ADVICE_TRIES 10 /* the kernel asks to try again when it is short of memory for itself */

void sa_sys_futex_wait(uint32_t *word, uint32_t expect, int64_t ns)
{
    struct timespec ts = {ns / 1000000000, ns % 1000000000};

    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expect, ns < 0 ? NULL : &ts, NULL, 0);
}

void sa_sys_futex_wake(uint32_t *word, int waiters)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, waiters, NULL, NULL, 0);
}

void *sa_sys_mmap(void *hint, size_t bytes, int prot, int flags)
{
    long r = syscall(SYS_mmap, hint, bytes, prot, flags, -1, 0);

    return r == -1 ? NULL : (void *)r;
}

int sa_sys_munmap(void *p, size_t bytes)
{
    return syscall(SYS_munmap, p, bytes) == -1 ? -errno : 0;
}

int sa_sys_madvise(void *p, size_t bytes, int advice)
{
    long r = -1;

    for (int i = 0; i < ADVICE_TRIES && r == -1; i++) {
        r = syscall(SYS_madvise, p, bytes, advice);
        if (r == -1 && errno != EAGAIN)
            break;
    }
    return r == -1 ? -errno : 0;
}

int sa_sys_mprotect(void *p, size_t bytes, int prot)
{
    return syscall(SYS_mprotect, p, bytes, prot) == -1 ? -errno : 0;
}

int sa_sys_msync(void *p, size_t bytes, int flags)
{
    return syscall(SYS_msync, p, bytes, flags) == -1 ? -errno : 0;
}

int sa_sys_mincore(void *p, size_t bytes, unsigned char *ret)
{
    return syscall(SYS_mincore, p, bytes, ret) == -1 ? -errno : 0;
}

/* The kernel reads the new mask before it looks at what to do with it, and knows no ~0: nothing changes. */
bool sa_sys_is_readable(const void *p)
{
    int saved = errno;
    bool readable =
        syscall(SYS_rt_sigprocmask, ~0, p, NULL, sizeof(uint64_t)) != -1 || errno != EFAULT;

    errno = saved;
    return readable;
}

void *sa_sys_mremap(void *old, size_t old_bytes, size_t new_bytes, int flags, void *target)
{
    long r = syscall(SYS_mremap, old, old_bytes, new_bytes, flags, target);

    return r == -1 ? NULL : (void *)r;
}

int sa_sys_membarrier(int command, unsigned flags, int cpu)
{
    long r = syscall(SYS_membarrier, command, flags, cpu);

    return r == -1 ? -errno : (int)r;
}

void sa_sys_name_mapping(void *p, size_t bytes, const char *name)
{
    syscall(SYS_prctl, PR_SET_VMA, PR_SET_VMA_ANON_NAME, p, bytes, name);
}

unsigned sa_sys_cpu_numbers(void)
{
    unsigned char mask[2048]; /* twice the largest configuration */
    /* The kernel copies its own mask, which has a bit for every possible CPU, and says how long it
     * is. The mask itself, the CPUs allowed now, may change later. */
    int bytes = sa_sys_affinity(mask, sizeof(mask));

    return bytes > 0 ? (unsigned)bytes * 8 : UINT_MAX;
}

int sa_sys_affinity(void *ret, size_t bytes)
{
    long n = syscall(SYS_sched_getaffinity, 0, bytes, ret);

    return n == -1 ? -errno : (int)n;
}

long sa_sys_read_file(const char *path, char *buf, size_t cap)
{
    size_t len = 0;
    long fd = syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0), n;

    if (fd == -1)
        return -errno;
    while (len + 1 < cap) {
        n = syscall(SYS_read, fd, buf + len, cap - 1 - len);
        if (n == -1 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        len += (size_t)n;
    }
    buf[len] = '\0';
    syscall(SYS_close, fd);
    return (long)len;
}

int sa_sys_open(const char *path, int flags, int mode)
{
    long r = syscall(SYS_openat, AT_FDCWD, path, flags | O_CLOEXEC, mode);

    return r == -1 ? -errno : (int)r;
}

int sa_sys_close(int fd)
{
    return syscall(SYS_close, fd) == -1 ? -errno : 0;
}

long sa_sys_read(int fd, void *buf, size_t bytes)
{
    long r = syscall(SYS_read, fd, buf, bytes);

    return r == -1 ? -errno : r;
}

long sa_sys_pread(int fd, void *buf, size_t bytes, uint64_t offset)
{
    long r = syscall(SYS_pread64, fd, buf, bytes, offset);

    return r == -1 ? -errno : r;
}

long sa_sys_write(int fd, const void *buf, size_t bytes)
{
    long r = syscall(SYS_write, fd, buf, bytes);

    return r == -1 ? -errno : r;
}

int sa_sys_link(const char *from, const char *to)
{
    return syscall(SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, AT_SYMLINK_FOLLOW) == -1 ? -errno : 0;
}

int sa_sys_rename(const char *from, const char *to)
{
    return syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0) == -1 ? -errno : 0;
}

int sa_sys_unlink(const char *path)
{
    return syscall(SYS_unlinkat, AT_FDCWD, path, 0) == -1 ? -errno : 0;
}

long sa_sys_readlink(const char *path, char *buf, size_t cap)
{
    long n = syscall(SYS_readlinkat, AT_FDCWD, path, buf, cap - 1);

    if (n == -1)
        return -errno;
    buf[n] = '\0';
    return n;
}

int sa_sys_file_mode(const char *path)
{
    struct stat st; /* libc's is the kernel's on the architectures that we have */

    if (syscall(SYS_newfstatat, AT_FDCWD, path, &st, AT_SYMLINK_NOFOLLOW) == -1)
        return -errno;
    return (int)st.st_mode;
}

void sa_sys_random(void *ret, size_t bytes)
{
    syscall(SYS_getrandom, ret, bytes, GRND_NONBLOCK);
}

int sa_sys_file_identity(int fd, uint64_t ret[2])
{
    struct stat st;

    if (syscall(SYS_newfstatat, fd, "", &st, AT_EMPTY_PATH) == -1)
        return -errno;
    ret[0] = st.st_dev;
    ret[1] = st.st_ino;
    return 0;
}

int sa_sys_poll(int fd, int events, unsigned ms)
{
    struct timespec ts = {ms / 1000, (long)(ms % 1000) * 1000000};
    struct pollfd p = {.fd = fd, .events = (short)events};
    long n = syscall(SYS_ppoll, &p, 1, &ts, NULL, 0);

    return n == -1 ? -errno : n ? p.revents : 0;
}

int sa_sys_ioctl(int fd, unsigned long request, void *arg)
{
    long n = syscall(SYS_ioctl, fd, request, arg);

    return n == -1 ? -errno : (int)n;
}

void sa_sys_name_thread(const char *name)
{
    syscall(SYS_prctl, PR_SET_NAME, name, 0, 0, 0);
}

int sa_sys_pid(void)
{
    return (int)syscall(SYS_getpid);
}

bool sa_sys_is_first_thread(void)
{
    long thread = syscall(SYS_gettid);

    return thread <= 0 || thread == syscall(SYS_getpid);
}

uint32_t sa_sys_tid(void)
{
    return (uint32_t)syscall(SYS_gettid);
}

int sa_sys_signal_self(int number, void *info)
{
    long r = syscall(SYS_rt_tgsigqueueinfo, sa_sys_pid(), sa_sys_tid(), number, info);

    return r == -1 ? -errno : 0;
}

uint64_t sa_sys_file_limit(void)
{
    struct rlimit limit; /* 64 bits wide, as the kernel's, on the architectures that we have */

    if (syscall(SYS_prlimit64, 0, RLIMIT_FSIZE, NULL, &limit) == -1)
        return UINT64_MAX;
    return limit.rlim_cur;
}
