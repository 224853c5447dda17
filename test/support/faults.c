/* SPDX-License-Identifier: Apache-2.0 */
/* Faults in system calls; see faults.h. Results as alloc/os/sys.h says. */
#include "test/support/faults.h"

#include "alloc/os/sys.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/uio.h>

struct test_faults test_faults = {.mmap_after = FAULT_NEVER, .madvise_after = FAULT_NEVER};

void *__real_sa_sys_mmap(void *hint, size_t bytes, int prot, int flags);
void *__wrap_sa_sys_mmap(void *hint, size_t bytes, int prot, int flags);
int __real_sa_sys_madvise(void *p, size_t bytes, int advice);
int __wrap_sa_sys_madvise(void *p, size_t bytes, int advice);
bool __real_sa_vm_release_runs(const struct iovec *runs, unsigned count);
bool __wrap_sa_vm_release_runs(const struct iovec *runs, unsigned count);

void test_faults_clear(void)
{
    test_faults = (struct test_faults){.mmap_after = FAULT_NEVER, .madvise_after = FAULT_NEVER};
}

/* Threads may run as long as nothing is to fail: then these are only read. */
static bool fault_due(long *after, long *calls)
{
    long left = __atomic_load_n(after, __ATOMIC_RELAXED);

    __atomic_fetch_add(calls, 1, __ATOMIC_RELAXED);
    if (left > 0)
        __atomic_store_n(after, left - 1, __ATOMIC_RELAXED);
    return left == 0;
}

void *__wrap_sa_sys_mmap(void *hint, size_t bytes, int prot, int flags)
{
    void *p;

    if (fault_due(&test_faults.mmap_after, &test_faults.mmap_calls)) {
        errno = ENOMEM;
        return NULL;
    }
    p = __real_sa_sys_mmap(hint, bytes, prot, flags);
    /* The kernel orders who unmapped these addresses before, unseen by ThreadSanitizer: see
     * test_recording. */
    __atomic_load_n(&test_faults.mmap_calls, __ATOMIC_ACQUIRE);
    return p;
}

int __wrap_sa_sys_madvise(void *p, size_t bytes, int advice)
{
    if (fault_due(&test_faults.madvise_after, &test_faults.madvise_calls)) {
        errno = EAGAIN; /* not EINVAL, which is for locked memory */
        return -EAGAIN;
    }
    return __real_sa_sys_madvise(p, bytes, advice);
}

/* Where the kernel is to refuse, each range comes by itself. */
bool __wrap_sa_vm_release_runs(const struct iovec *runs, unsigned count)
{
    return __atomic_load_n(&test_faults.madvise_after, __ATOMIC_RELAXED) == FAULT_NEVER &&
           __real_sa_vm_release_runs(runs, count);
}
