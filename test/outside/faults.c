/* SPDX-License-Identifier: Apache-2.0 */
/* System calls that fail; see faults.h. Called before anything of the program is initialised. */
#include "test/outside/faults.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <sys/syscall.h>

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

__attribute__((visibility("default"))) long syscall(long number, ...)
{
    long a[6], result;
    va_list ap;

    va_start(ap, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(ap, long);
    va_end(ap);
    for (int i = 0; i < FAULT_KINDS; i++) {
        if (faults[i].number == number && fault_due(&faults[i])) {
            if (i == FAULT_MREMAP && faults_mremap_unmaps)
                kernel(SYS_munmap, (long[6]){a[4], a[2]});
            errno = faults[i].error;
            return -1;
        }
    }
    result = kernel(number, a);
    if (result < 0 && result >= -4095) {
        errno = (int)-result;
        return -1;
    }
    return result;
}
