/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the process has one thread. Such a process needs no locked instructions, which cost about
 * 5 ns each: only signal handlers of the same thread can come in between. Handlers leave locks and
 * counts as they find them, or a single instruction changes the count.
 *
 * libc's flag says so: pthread_create clears it before there is another thread. The flag cannot
 * change between the test and what depends on it (glibc's own malloc relies on that, too). It can
 * change while a lock is held, so the words in memory are the same in both cases.
 */
#ifndef SA_BASE_SINGLE_THREADED_H
#define SA_BASE_SINGLE_THREADED_H

#include "alloc/base/atomic.h"
#include "alloc/base/attrs.h"

#include <stdbool.h>
#include <stdint.h>

/* Not with ThreadSanitizer, which would miss the order that locks give, nor in a build that delays
 * threads at every atomic step. */
#if __has_include(<sys/single_threaded.h>) && !SA_TSAN && !defined(SA_PREEMPT)
#include <sys/single_threaded.h>
#define SA_ALONE_WORD        __libc_single_threaded
#define sa_single_threaded() (SA_ALONE_WORD != 0)
#else
#define sa_single_threaded() false
#endif

/* Adds to a count to which signal handlers also add; the value before. */
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
