/* SPDX-License-Identifier: Apache-2.0 */
/* The delays of preempt.h. Each thread has a random state of its own, so nothing is shared. */
#ifndef SA_PREEMPT /* for checks that compile every file, in any build */
#define SA_PREEMPT
#endif
#include "alloc/base/preempt.h"

#include "alloc/base/rng.h"
#include "alloc/base/syscall.h"

#include <stdint.h>
#include <time.h>

#define YIELD_ONE_IN 64
#define SLEEP_ONE_IN 2048
#define SLEEP_MAX_NS 200000

static _Thread_local uint64_t preempt_random; /* 0: not seeded; written by its thread only */

void sa_preempt(void)
{
    struct timespec nap = {0, 0};
    uint64_t r;

    if (!preempt_random)
        preempt_random = sa_rng_mix((uint64_t)sa_syscall(SYS_gettid));
    r = sa_rng_mix(preempt_random += SA_RNG_STEP);
    if (r % SLEEP_ONE_IN == 1) {
        nap.tv_nsec = (long)((r >> 32) % SLEEP_MAX_NS);
        sa_syscall(SYS_nanosleep, &nap, NULL);
    } else if (r % YIELD_ONE_IN == 0) {
        sa_syscall(SYS_sched_yield);
    }
}
