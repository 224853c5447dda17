/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the entry points share: the only place where errno is set. Slow paths may disturb errno; a
 * successful call leaves it as it was, a failed allocation sets ENOMEM.
 *
 * It is also where the sampler learns who called: SA_CALLER is the address that the stack pointer
 * had when the function in which it stands was called (DWARF's canonical frame address). What was
 * called by jumps from an entry point has the entry point's. Calls nest: a signal handler allocates
 * inside of a slow path.
 */
#ifndef SA_API_ENTRY_H
#define SA_API_ENTRY_H

#include "alloc/base/attrs.h"
#include "alloc/os/thread.h"
#include "include/salloc/profile.h"

#include <stdbool.h>
#include <stddef.h>

#define SA_CALLER __builtin_dwarf_cfa()

/*
 * For `kind`, in a function that keeps a frame pointer because of this: whether it was reached from
 * SA_CALLER by jumps alone. The functions on the way have then restored rbp, and the word below the
 * return address, which this function's prologue stored, is the program's rbp. Captures need not
 * walk through the allocator's own frames to find it.
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

/* How an entry point is called: enum salloc_allocation_kind, with SA_CALLER_FAMILY. */
typedef unsigned sa_entry_kind;

#define SA_ENTRY_NEW   (SALLOC_KIND_NEW | SA_CALLER_FAMILY(SA_FAMILY_NEW))
#define SA_ENTRY_ARRAY (SALLOC_KIND_NEW | SA_CALLER_FAMILY(SA_FAMILY_ARRAY))

/* Says who calls; what was there before, for sa_entry_end. */
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

/* As sa_front_alloc, with errno and after making sure that the library is initialised. */
SA_NOINLINE void *sa_entry_alloc(size_t size, size_t align, int zero, sa_entry_kind kind,
                                 const void *caller);
SA_NOINLINE void *sa_entry_malloc(size_t size);

/*
 * The fast path of an allocation with an alignment, a power of two: NULL if the slow one has to
 * look. The class is the first of those from `size` on that are multiples of the alignment, as
 * spans begin on a page. limit: the mid_limit that counts.
 */
SA_NOINLINE void *sa_entry_alloc_aligned(size_t size, size_t align, size_t limit);

/* The fast path of a free, for all classes: false if the slow one has to look. */
SA_NOINLINE bool sa_entry_free_fast(void *p);

/* The same for a block of a known size and alignment, which is looked at. */
SA_NOINLINE bool sa_entry_free_aligned(void *p, size_t size, size_t align);
SA_NOINLINE void sa_entry_free(void *p); /* NULL allowed */

/* The same for operator delete; align: what it is told, else 1. */
SA_NOINLINE void sa_entry_delete(void *p, size_t align, sa_entry_kind kind);
SA_NOINLINE void sa_entry_free_sized(void *p, size_t size, size_t align, sa_entry_kind kind);

#endif
