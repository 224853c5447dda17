/* SPDX-License-Identifier: Apache-2.0 */
/*
 * System calls that fail; see faults.h. The library makes them as instructions, so no function can
 * be replaced: a filter of system calls sends a signal instead of each that is made from the
 * library's code, and the handler lets it fail, or makes the call.
 */
#include "test/outside/faults.h"

#include "test/outside/library_code.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

struct fault faults[FAULT_KINDS] = {
    {.number = SYS_mmap, .after = FAULT_NEVER, .error = ENOMEM},
    {.number = SYS_mremap, .after = FAULT_NEVER, .error = ENOMEM},
    {.number = SYS_madvise, .after = FAULT_NEVER, .error = EINVAL},
    {.number = SYS_munmap, .after = FAULT_NEVER, .error = ENOMEM},
    {.number = SYS_membarrier, .after = FAULT_NEVER, .error = EPERM},
    {.number = SYS_mprotect, .after = FAULT_NEVER, .error = ENOMEM},
};

int faults_mremap_unmaps;

void faults_clear(void)
{
    for (int i = 0; i < FAULT_KINDS; i++) {
        faults[i].after = FAULT_NEVER;
        faults[i].failures = FAULT_NEVER;
        faults[i].calls = faults[i].failed = 0;
    }
}

/* The kernel's own result: an error is a small negative number. */
static long kernel(long number, const long *a)
{
    long result;
#if defined(__x86_64__)
    register long a3 __asm__("r10") = a[3];
    register long a4 __asm__("r8") = a[4];
    register long a5 __asm__("r9") = a[5];

    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a[0]), "S"(a[1]), "d"(a[2]), "r"(a3), "r"(a4), "r"(a5)
                     : "rcx", "r11", "memory");
#elif defined(__aarch64__)
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a[0];
    register long x1 __asm__("x1") = a[1];
    register long x2 __asm__("x2") = a[2];
    register long x3 __asm__("x3") = a[3];
    register long x4 __asm__("x4") = a[4];
    register long x5 __asm__("x5") = a[5];

    __asm__ volatile("svc #0"
                     : "+r"(x0)
                     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
                     : "memory");
    result = x0;
#endif
    return result;
}

static bool fault_due(struct fault *f)
{
    f->calls++;
    if (f->after < 0)
        return false;
    if (f->after > 0) {
        f->after--;
        return false;
    }
    if (f->failures == 0)
        return false;
    if (f->failures > 0)
        f->failures--;
    f->failed++;
    return true;
}

static long answer(long number, const long *a)
{
    for (int i = 0; i < FAULT_KINDS; i++) {
        if (faults[i].number == number && fault_due(&faults[i])) {
            if (i == FAULT_MREMAP && faults_mremap_unmaps)
                kernel(SYS_munmap, (long[6]){a[4], a[2]});
            return -faults[i].error;
        }
    }
    return kernel(number, a);
}

static void at_call(int signal_number, siginfo_t *info, void *context)
{
    mcontext_t *m = &((ucontext_t *)context)->uc_mcontext;
    int saved = errno;

    (void)signal_number;
#if defined(__x86_64__)
    greg_t *r = m->gregs;

    r[REG_RAX] = answer(info->si_syscall, (long[6]){r[REG_RDI], r[REG_RSI], r[REG_RDX], r[REG_R10],
                                                    r[REG_R8], r[REG_R9]});
#elif defined(__aarch64__)
    unsigned long long *r = m->regs;

    r[0] =
        (unsigned long long)answer(info->si_syscall, (long[6]){(long)r[0], (long)r[1], (long)r[2],
                                                               (long)r[3], (long)r[4], (long)r[5]});
#endif
    errno = saved;
}

#define LOAD(offset)              BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset)
#define JUMP(how, value, yes, no) BPF_JUMP(BPF_JMP | (how) | BPF_K, value, yes, no)
#define RETURN(value)             BPF_STMT(BPF_RET | BPF_K, value)

static void faults_begin(void)
{
    const unsigned ip = offsetof(struct seccomp_data, instruction_pointer);
    struct sigaction action = {.sa_sigaction = at_call, .sa_flags = SA_SIGINFO | SA_NODEFER};
    uintptr_t code[2] = {0, 0};

    if (dl_iterate_phdr(library_code, code) != 1)
        return;
    struct sock_filter filter[] = {
        LOAD(ip + sizeof(uint32_t)), /* the library does not lie across 4 GiB, but for a chance of 1
                                        in 20,000 */
        JUMP(BPF_JEQ, (uint32_t)(code[0] >> 32), 1, 0),
        RETURN(SECCOMP_RET_ALLOW),
        LOAD(ip),
        JUMP(BPF_JGE, (uint32_t)code[0], 1, 0),
        RETURN(SECCOMP_RET_ALLOW),
        JUMP(BPF_JGE, (uint32_t)code[1], 0, 1),
        RETURN(SECCOMP_RET_ALLOW),
        RETURN(SECCOMP_RET_TRAP),
    };
    struct sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};

    /* Not by the library's prctl, which would take it for a filter of the program's. */
    if (sigaction(SIGSYS, &action, NULL) != 0 ||
        kernel(SYS_prctl, (long[6]){PR_SET_NO_NEW_PRIVS, 1}) != 0 ||
        kernel(SYS_prctl, (long[6]){PR_SET_SECCOMP, SECCOMP_MODE_FILTER, (long)&program}) != 0)
        _exit(77);
}

/* Before the constructors of libraries. */
__attribute__((section(".preinit_array"), used)) static void (*const begin)(void) = faults_begin;
