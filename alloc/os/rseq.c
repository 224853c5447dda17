/* SPDX-License-Identifier: Apache-2.0 */
/* Finds libc's registration of rseq, and fences; see rseq.h. Start-up writes sa_rseq, under INIT,
 * except for the atomic count of fences. */
#include "alloc/os/rseq.h"

#include "alloc/base/atomic.h"
#include "alloc/base/layout.h"
#include "alloc/base/single_threaded.h"
#include "alloc/os/filter.h"
#include "alloc/os/percpu.h"
#include "alloc/os/sys.h"
#include "alloc/os/thread.h"

#include <stddef.h>

/* From linux/membarrier.h of Linux 5.10, where they are enumerators, which the preprocessor cannot
 * test. */
enum {
    CMD_PRIVATE_EXPEDITED_RSEQ = 1 << 7,
    CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ = 1 << 8,
    FLAG_CPU = 1 << 0,
};

/* libc's description of its area, since glibc 2.35. Weak, because older libcs have none. */
extern const ptrdiff_t __rseq_offset SA_WEAK;
extern const unsigned __rseq_size SA_WEAK;

SA_LAYOUT_USED SA_START_DATA struct sa_rseq sa_rseq;
SA_START_DATA unsigned char sa_filter_known;

/* What reports show. */
SA_LAYOUT = {
    SA_LAYOUT_STATE("sa_rseq", sa_rseq, per_cpu),
    SA_LAYOUT_STATE("sa_rseq", sa_rseq, fences),
};
SA_LAYOUT_ADDRESS(sa_rseq);
_Thread_local struct sa_thread sa_thread;

SA_STATIC_ASSERT(offsetof(struct sa_thread_area, cpu_id) == SA_RSEQ_CPU_ID, "kernel ABI");
SA_STATIC_ASSERT(offsetof(struct sa_thread_area, rseq_cs) == SA_RSEQ_CS, "kernel ABI");

static int rseq_register_fence(void)
{
    return sa_sys_membarrier(CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ, 0, 0);
}

/* Returns why rseq cannot be used, or NULL if it can. */
static SA_START_CODE const char *rseq_unusable(bool allow)
{
    const char *tp = sa_thread_pointer();

    if (!allow)
        return "switched off by option";
    if (&__rseq_size == NULL || &__rseq_offset == NULL)
        return "libc does not register rseq";
    if (__rseq_size == 0)
        return "libc did not register rseq (old kernel, seccomp or glibc.pthread.rseq=0)";
    if (*(const volatile int32_t *)(tp + __rseq_offset + SA_RSEQ_CPU_ID) < 0)
        return "rseq is not registered for the first thread";
    if (sa_rseq.cpus > SA_SLABS)
        return "the kernel has more CPU numbers than slabs";
    if (rseq_register_fence() != 0)
        return "the kernel has no membarrier for rseq";
    return NULL;
}

struct sa_sys_cpus sa_rseq_process_cpus;

SA_START_CODE void sa_rseq_init(bool allow)
{
    if (sa_rseq.asked)
        return;
    sa_rseq.asked = true;
    sa_rseq.cpus = allow ? sa_sys_cpu_numbers(&sa_rseq_process_cpus) : 0;
    sa_rseq.reason = rseq_unusable(allow);
    sa_rseq.per_cpu = sa_rseq.reason == NULL;
    sa_rseq.offset = sa_rseq.per_cpu
                         ? (int64_t)__rseq_offset
                         : (const char *)&sa_thread.area - (const char *)sa_thread_pointer();
}

SA_RARE bool sa_rseq_can_fence(void)
{
    return sa_single_threaded() || !sa_filtered();
}

SA_RARE bool sa_rseq_fence(int cpu)
{
    long r = -1;

    if (sa_single_threaded())
        return true; /* no other thread is in a section, and a signal restarts this thread's */
    if (sa_filtered())
        return false;
    sa_add_relaxed(&sa_rseq.fences, 1);
    sa_preempt();
    if (cpu >= 0)
        r = sa_sys_membarrier(CMD_PRIVATE_EXPEDITED_RSEQ, FLAG_CPU, cpu);
    if (r != 0)
        r = sa_filter_result(sa_sys_membarrier(CMD_PRIVATE_EXPEDITED_RSEQ, 0, 0));
    sa_preempt();
    return r == 0;
}
