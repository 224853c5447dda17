/* SPDX-License-Identifier: Apache-2.0 */
/* Exports the functions that mark pages; see mark_calls.h. */
#include "alloc/api/interposers/mark_calls.h"

#include "alloc/api/interposers/dlsym.h"
#include "alloc/base/atomic.h"
#include "alloc/base/attrs.h"
#include "alloc/base/syscall.h"
#include "alloc/os/loader.h"
#include "pagemap/pagemap.h"
#include "pagemap/span.h"

#include <errno.h>
#include <sys/mman.h>

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

void sa_mark_calls_note(uintptr_t at, size_t bytes)
{
    uintptr_t end = at + bytes;
    struct sa_span *s;

    while (at < end) {
        s = sa_pagemap_find_around(at);
        if (!s || sa_load_relaxed(&s->state) != SA_SPAN_LARGE || at - s->start >= sa_span_bytes(s))
            return;
        s->moved = 1;
        at = sa_span_end(s);
    }
}

/* Turns the result of a system call into that of libc's function: -1 with errno set on failure. */
static long result(long r)
{
    if (!sa_syscall_failed(r))
        return r;
    errno = (int)-r;
    return -1;
}

bool sa_mark_calls_advice_stays(int advice)
{
    switch (advice) {
    case MADV_RANDOM:
    case MADV_SEQUENTIAL:
    case MADV_DONTFORK:
    case MADV_WIPEONFORK:
    case MADV_DONTDUMP:
    case MADV_MERGEABLE:
    case MADV_HUGEPAGE:
    case MADV_NOHUGEPAGE:
        return true;
    default:
        return false;
    }
}

/*
 * Defines sa_direct_NAME (alloc/api/interposers/dlsym.h), which makes the system call, and the
 * exported NAME, which goes on to an interposer if there is one. `mark`: whether the call marks the
 * range of `bytes` from `p`. The sanitizers define some of the exported names.
 */
#define MARKING(type, name, parameters, arguments, mark, call)                                     \
    type sa_direct_##name parameters                                                               \
    {                                                                                              \
        if (mark)                                                                                  \
            sa_mark_calls_note((uintptr_t)p, bytes);                                               \
        return (type)result(call);                                                                 \
    }                                                                                              \
    MARKING_EXPORT(type, name, parameters, arguments, mark)
#if SA_ASAN || SA_TSAN
#define MARKING_EXPORT(type, name, parameters, arguments, mark)
#else
#define MARKING_EXPORT(type, name, parameters, arguments, mark)                                    \
    SA_EXPORT type name parameters;                                                                \
    SA_EXPORT type name parameters                                                                 \
    {                                                                                              \
        static void *interposer; /* sa_loader_interposer */                                        \
        void *next = sa_loader_interposer(&interposer, #name);                                     \
                                                                                                   \
        if (!next)                                                                                 \
            return sa_direct_##name arguments;                                                     \
        if (mark)                                                                                  \
            sa_mark_calls_note((uintptr_t)p, bytes);                                               \
        return ((type(*) parameters)next)arguments;                                                \
    }
#endif

MARKING(int, madvise, (void *p, size_t bytes, int advice), (p, bytes, advice),
        sa_mark_calls_advice_stays(advice), sa_syscall(SYS_madvise, p, bytes, advice))

MARKING(int, mprotect, (void *p, size_t bytes, int access), (p, bytes, access),
        access != (PROT_READ | PROT_WRITE), sa_syscall(SYS_mprotect, p, bytes, access))

MARKING(int, pkey_mprotect, (void *p, size_t bytes, int access, int key), (p, bytes, access, key),
        true,
        key == -1 ? sa_syscall(SYS_mprotect, p, bytes, access)
                  : sa_syscall(SYS_pkey_mprotect, p, bytes, access, key))

MARKING(int, mlock, (const void *p, size_t bytes), (p, bytes), true,
        sa_syscall(SYS_mlock, p, bytes))

MARKING(int, mlock2, (const void *p, size_t bytes, unsigned flags), (p, bytes, flags), true,
        flags ? sa_syscall(SYS_mlock2, p, bytes, flags) : sa_syscall(SYS_mlock, p, bytes))

/* libnuma's, which has the policies of its other functions set by it. */
MARKING(long, mbind,
        (void *p, unsigned long bytes, int mode, const unsigned long *nodes, unsigned long max,
         unsigned flags),
        (p, bytes, mode, nodes, max, flags), true,
        sa_syscall(SYS_mbind, p, bytes, mode, nodes, max, flags))
