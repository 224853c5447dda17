/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the entry points of malloc's family share: errno, and the record of who called.
 *
 * These functions set errno, and no layer below does it for them. A slow path may change errno. A
 * successful call restores it; a failed allocation sets ENOMEM.
 *
 * The caller. SA_CALLER is the canonical frame address (DWARF) of the function that contains it:
 * the value of the stack pointer before the call that entered the function. A function that was
 * reached from an entry point by jumps alone has the entry point's. The sampler captures stacks
 * from there (sa_thread.caller). Calls nest, because a signal handler may allocate inside a slow
 * path: so sa_entry_begin returns the previous record, and sa_entry_end restores it. The record is
 * thread-local and needs no lock.
 */
#ifndef SA_API_ENTRY_ENTRY_H
#define SA_API_ENTRY_ENTRY_H

#include "alloc/base/attrs.h"
#include "alloc/os/thread.h"
#include "include/salloc/profile.h"

#include <stdbool.h>
#include <stddef.h>

#define SA_CALLER __builtin_dwarf_cfa()

/*
 * A bit for `kind`: SA_CALLER_RBP_SAVED if the function that contains this was reached from
 * SA_CALLER by jumps alone. The functions on the way have then restored rbp. So the word below the
 * return address, which this function's prologue has stored, is the program's rbp, and a capture
 * need not walk through the allocator's frames to find it. The macro makes a function keep a frame
 * pointer.
 */
#ifdef __x86_64__
#define SA_CALLER_RBP(caller)                                                                      \
    ((const char *)__builtin_frame_address(0) + 16 == (const char *)(caller) ? SA_CALLER_RBP_SAVED \
                                                                             : 0)
#else
#define SA_CALLER_RBP(caller) 0u
#endif

struct sa_caller {
    const void *frame;
    unsigned char kind;
};

/* What called: enum salloc_allocation_kind, SA_CALLER_FAMILY and SA_CALLER_RBP_SAVED
 * (alloc/os/thread.h). */
typedef unsigned sa_entry_kind;

#define SA_ENTRY_NEW   (SALLOC_KIND_NEW | SA_CALLER_FAMILY(SA_FAMILY_NEW))
#define SA_ENTRY_ARRAY (SALLOC_KIND_NEW | SA_CALLER_FAMILY(SA_FAMILY_ARRAY))

/* Records the caller of this thread. Returns the previous record, for sa_entry_end. */
SA_INLINE struct sa_caller sa_entry_begin(const void *frame, sa_entry_kind kind)
{
    struct sa_caller before = {sa_thread.caller, sa_thread.caller_kind};

    sa_thread.caller = frame;
    sa_thread.caller_kind = (unsigned char)kind;
    return before;
}

SA_INLINE void sa_entry_end(struct sa_caller before)
{
    sa_thread.caller = before.frame;
    sa_thread.caller_kind = before.kind;
}

/* sa_front_alloc with an initialised library, the caller's record, and errno: ENOMEM on failure,
 * unchanged on success. */
SA_NOINLINE void *sa_entry_alloc(size_t size, size_t align, int zero, sa_entry_kind kind,
                                 const void *caller);
SA_NOINLINE void *sa_entry_malloc(size_t size);

/*
 * The fast path of an allocation with an alignment, a power of two. Its class is the first one from
 * `size` on whose size is a multiple of the alignment: a span begins on a page, so all objects on
 * spans of the class are aligned. NULL: the slow path must decide. limit: sa_hot.mid_limit, or
 * cxx_mid_limit for operators.
 */
SA_NOINLINE void *sa_entry_alloc_aligned(size_t size, size_t align, size_t limit);

/* The fast path of free, for all classes. False: nothing was done, and the slow path must free. */
SA_NOINLINE bool sa_entry_free_fast(void *p);

/* The same for a block that the caller says to have this size and alignment. False also if its
 * class is another one. */
SA_NOINLINE bool sa_entry_free_aligned(void *p, size_t size, size_t align);
SA_NOINLINE void sa_entry_free(void *p); /* NULL allowed */

/* For operator delete. align: the argument of the operator, or 1 if the operator has none. */
SA_NOINLINE void sa_entry_delete(void *p, size_t align, sa_entry_kind kind);
SA_NOINLINE void sa_entry_free_sized(void *p, size_t size, size_t align, sa_entry_kind kind);

#endif
