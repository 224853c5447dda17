/* SPDX-License-Identifier: Apache-2.0 */
/*
 * madvise and mprotect, exported to learn what a program does to the pages of its large blocks:
 * marks that children of fork see, and other access. The page heap maps such a block afresh when it
 * is freed, as after mremap. The calls themselves are what libc's are.
 *
 * mmap is not exported: a mapping over a block is rare, and libraries that are preloaded to watch
 * mmap would not be called.
 *
 * Who writes: `moved` belongs to the owner of the block, which is the program that makes the call.
 */
#include "alloc/base/atomic.h"
#include "alloc/base/attrs.h"
#include "alloc/base/syscall.h"
#include "alloc/page_heap/page_heap.h"
#include "pagemap/pagemap.h"
#include "pagemap/span.h"

#include <errno.h>
#include <sys/mman.h>

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

#if !SA_ASAN && !SA_TSAN /* sanitizers have functions of these names */

static bool is_heap(uintptr_t address)
{
    return address >> SA_HOME_SHIFT == SA_HOME_START >> SA_HOME_SHIFT ||
           sa_page_heap_sampled_address(address);
}

/* The large blocks in a range are not as they were handed out any more. */
static void note(const void *p, size_t bytes)
{
    uintptr_t at = (uintptr_t)p, end = at + bytes;
    struct sa_span *s;

    while (at < end && is_heap(at)) {
        s = sa_pagemap_find_around(at);
        if (!s || sa_load_relaxed(&s->state) != SA_SPAN_LARGE || at - s->start >= sa_span_bytes(s))
            return;
        s->moved = 1;
        at = sa_span_end(s);
    }
}

static long result(long r)
{
    if (!sa_syscall_failed(r))
        return r;
    errno = (int)-r;
    return -1;
}

SA_EXPORT int madvise(void *p, size_t bytes, int advice)
{
    if (advice == MADV_DONTFORK || advice == MADV_WIPEONFORK || advice == MADV_DONTDUMP)
        note(p, bytes);
    return (int)result(sa_syscall(SYS_madvise, p, bytes, advice));
}

SA_EXPORT int mprotect(void *p, size_t bytes, int access)
{
    if (access != (PROT_READ | PROT_WRITE))
        note(p, bytes);
    return (int)result(sa_syscall(SYS_mprotect, p, bytes, access));
}

#endif
