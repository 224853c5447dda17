/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls by number, which the library exports syscall for, are what they are with libc: values,
 * errors and errno, six arguments, in a constructor, in signal handlers, in children of vfork, and
 * where a call returns twice, on another stack, with other registers, or not at all.
 */
#include "test/outside/check.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>

typedef long (*syscall_function)(long, ...);

static long early, early_error;

__attribute__((constructor)) static void before_main(void)
{
    early = syscall(SYS_getpid);
    errno = 0;
    if (syscall(SYS_close, -1) == -1)
        early_error = errno;
}

static bool is_own(const void *function)
{
    Dl_info info;

    return dladdr(function, &info) && strstr(info.dli_fname, "libsalloc.so");
}

static void test_values(syscall_function call)
{
    char *p;

    errno = 12345;
    CHECK(call(SYS_getpid) == getpid());
    CHECK(call(SYS_lseek, 0, 0, 1) == lseek(0, 0, 1) || errno == ESPIPE);
    errno = 12345;
    p = (char *)call(SYS_mmap, NULL, 8192ul, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                     -1l, 0ul);
    CHECK(p && (uintptr_t)p < -4095ul && errno == 12345);
    p[8191] = 1;
    CHECK(call(SYS_mprotect, p, 4096ul, PROT_READ) == 0);
    CHECK(call(SYS_madvise, p, 8192ul, MADV_DONTFORK) == 0);
    CHECK(call(SYS_munmap, p, 8192ul) == 0 && errno == 12345);
    for (unsigned i = 0; i < 3; i++) { /* one that is noted, one that is not, one that is none */
        errno = 0;
        CHECK(call(i == 0 ? SYS_mlock : i == 1 ? SYS_madvise : 100000, -4096l, 1l << 40, -1) == -1);
        CHECK_SAYS(errno == (i == 2   ? ENOSYS
                             : i == 1 ? EINVAL
                                      : ENOMEM) ||
                       errno == EINVAL,
                   "%u: error %d", i, errno);
    }
    errno = 0;
    CHECK(call(-1l) == -1 && errno == ENOSYS);
}

static volatile int in_handler;

static void on_alarm(int signal)
{
    int saved = errno;

    (void)signal;
    in_handler += syscall(SYS_close, -1) == -1 && errno == EBADF;
    in_handler += syscall(SYS_madvise, NULL, 4096ul, MADV_DONTDUMP) == -1;
    errno = saved;
}

static void test_signals(void)
{
    struct itimerval every = {{0, 300}, {0, 300}}, never = {{0, 0}, {0, 0}};
    char *p = aligned_alloc(4096, 1 << 20);

    REQUIRE(p);
    signal(SIGALRM, on_alarm);
    setitimer(ITIMER_REAL, &every, NULL);
    for (int i = 0; in_handler < 200; i++) {
        errno = 12345;
        CHECK(syscall(SYS_madvise, p, 4096ul, i % 2 ? MADV_DODUMP : MADV_DONTDUMP) == 0);
        CHECK(syscall(SYS_getppid) == getppid() && errno == 12345);
    }
    setitimer(ITIMER_REAL, &never, NULL);
    signal(SIGALRM, SIG_DFL);
    free(p);
}

static bool ended_with(pid_t pid, int value)
{
    int status;

    return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) &&
           WEXITSTATUS(status) == value;
}

static void test_children(void)
{
    static char *volatile block;
    pid_t pid;

    for (int i = 0; i < 50; i++) {
        block = malloc(1 << 20);
        pid = vfork();
        if (pid == 0) {
            long failed = syscall(SYS_mlock, block, 1ul << 60);

            syscall(SYS_exit_group, failed == -1 && errno ? 7l : 8l);
        }
        CHECK(ended_with(pid, 7));
        free(block);
        pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
        if (pid == 0) {
            free(malloc(100));
            syscall(SYS_exit_group, 9l);
        }
        CHECK(ended_with(pid, 9));
    }
}

#ifdef __x86_64__
/* The child returns to the address that lies on its stack. */
static void other_stack(void)
{
    syscall(SYS_exit, 11l);
}

static void test_other_stack(void)
{
    static uint64_t stack[4096] __attribute__((aligned(16)));

    for (int i = 0; i < 10; i++) {
        stack[4095 - 8] = (uintptr_t)other_stack;
        CHECK(ended_with(
            (pid_t)syscall(SYS_clone, CLONE_VM | CLONE_VFORK | SIGCHLD, &stack[4095 - 8], 0, 0, 0),
            11));
    }
}

/* Returns from a handler by number. The kernel takes the frame from the stack pointer. */
extern void restorer(void);
__asm__(".text\nrestorer:\n\tmovl $15,%edi\n\tjmp syscall@PLT\n");

static void test_sigreturn(void)
{
    struct {
        void (*handler)(int);
        unsigned long flags;
        void (*restorer)(void);
        unsigned long mask;
    } action = {on_alarm, 0x04000000 /* SA_RESTORER */, restorer, 0};
    int before = in_handler;

    CHECK(syscall(SYS_rt_sigaction, SIGUSR1, &action, NULL, 8ul) == 0);
    for (int i = 0; i < 10; i++)
        raise(SIGUSR1);
    CHECK(in_handler == before + 20);
}
#else
static void test_other_stack(void)
{
}

static void test_sigreturn(void)
{
}
#endif

int main(void)
{
    syscall_function by_handle;

    check_begin();
    by_handle = (syscall_function)dlsym(dlopen("libc.so.6", RTLD_LAZY), "syscall");
    CHECK(is_own((void *)syscall) && is_own((void *)by_handle));
    CHECK(early == getpid() && early_error == EBADF);
    test_values(syscall);
    test_values(by_handle);
    test_signals();
    test_children();
    test_other_stack();
    test_sigreturn();
    return check_end();
}
