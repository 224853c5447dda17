/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sa_single_threaded(): true if the process has one thread. Such a process needs no locked
 * instructions, which cost about 5 ns each: only signal handlers of the same thread can run in
 * between. A handler leaves locks and counts as it finds them, or one instruction changes the
 * count.
 *
 * The source is libc's flag __libc_single_threaded: pthread_create clears it before the second
 * thread exists. The flag cannot change between the test and the access that depends on the test;
 * glibc's own malloc relies on that, too. It can change while a lock is held, so the words in
 * memory have the same format in both cases.
 */
#ifndef SA_BASE_SINGLE_THREADED_H
#define SA_BASE_SINGLE_THREADED_H

#include "alloc/base/atomic.h"
#include "alloc/base/attrs.h"

#include <stdbool.h>
#include <stdint.h>

/* Always false under ThreadSanitizer, which would not see the order that locks give, and in builds
 * with delays (preempt.h). */
#if __has_include(<sys/single_threaded.h>) && !SA_TSAN && !defined(SA_PREEMPT)
#include <sys/single_threaded.h>
#define SA_SINGLE_THREADED_WORD __libc_single_threaded
#define sa_single_threaded()    (SA_SINGLE_THREADED_WORD != 0)
#else
#define sa_single_threaded() false
#endif

/* Adds to a count that other threads and signal handlers change as well. Returns the value
 * before. */
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
