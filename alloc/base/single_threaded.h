/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the process has one thread. Then what else would need a locked instruction, several
 * nanoseconds each, can do without: nobody is there but signal handlers of this thread, and they
 * leave locks and counts as they find them, or a single instruction is enough.
 *
 * libc tells: pthread_create clears the flag before there is another thread. So it cannot change
 * between the question and what is done about it (glibc's own malloc relies on the same). It may
 * change while a lock is held; so the words in memory are the same either way.
 */
#ifndef SA_BASE_SINGLE_THREADED_H
#define SA_BASE_SINGLE_THREADED_H

#include "alloc/base/atomic.h"
#include "alloc/base/attrs.h"

#include <stdbool.h>
#include <stdint.h>

/* A sanitizer would miss the order that locks give; a build that stresses preemption wants them
 * all. */
#if __has_include(<sys/single_threaded.h>) && !SA_TSAN && !defined(SA_PREEMPT)
#include <sys/single_threaded.h>
#define SA_ALONE_WORD        __libc_single_threaded
#define sa_single_threaded() (SA_ALONE_WORD != 0)
#else
#define sa_single_threaded() false
#endif

/* As sa_add_relaxed, for counts to which signal handlers add, too. */
SA_INLINE uint64_t sa_count_shared(uint64_t *p, uint64_t v)
{
#ifdef __x86_64__
    if (sa_single_threaded()) {
        __asm__("xaddq %0, %1" : "+r"(v), "+m"(*p) : : "cc");
        return v;
    }
#endif
    return sa_add_relaxed(p, v);
}

#endif
