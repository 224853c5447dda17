/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The only thread-local block: 64 bytes, because static TLS is scarce where the library is loaded
 * with dlopen. It is initial-exec, so that access needs no call. All zero is a valid state: a
 * thread that has not called the allocator yet.
 *
 * Every field is written by its own thread only. A child of vfork has the block of the thread that
 * waits.
 */
#ifndef SA_OS_THREAD_H
#define SA_OS_THREAD_H

#include "alloc/base/attrs.h"
#include "alloc/base/bits.h"
#include "alloc/base/origin.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * Has the layout of the kernel's struct rseq. Where rseq is missing, the fast path uses this area
 * instead of libc's: cpu_id is then the number of the thread's own slab, the kernel restarts
 * nothing, and the same instructions work. Slab 0 is always empty, so a new thread takes the slow
 * path.
 */
struct sa_thread_area {
    uint32_t cpu_id_start;
    int32_t cpu_id;
    uint64_t rseq_cs;
    uint32_t flags;
    uint32_t tid;      /* not the kernel's: TID of the thread, see sa_sample_tid; 0: not known */
    uint32_t vfork;    /* not the kernel's: see alloc/fork/vfork.h; 0: no child of vfork; with
                          SA_VFORK_OWN: a copy with memory of its own */
    uint32_t filtered; /* not the kernel's: this child of vfork has a filter, see filter.h */
};

struct sa_thread {
    struct sa_thread_area area;
    uint32_t gate_depth;  /* nesting of slow paths, see alloc/fork/fork_gate.h */
    uint16_t gate_stripe; /* the gate's counter that counts this thread */
    uint16_t past_limit;  /* MiB beyond the hard limit for its requests, see sa_limits_over */
    uint32_t held_ranks;  /* debug builds: a bit for each lock rank held */
    uint8_t slot_state;   /* enum in alloc/cpu_cache/thread_slots.c */
    uint8_t gate_moving;  /* brackets that this thread is in, see sa_fork_gate_move_begin */
    uint8_t gate_broken;
    uint8_t sampling;     /* inside the sampler: its own allocations are not sampled */
    const void *caller;   /* frame of the allocator's caller, see api/entry.h; NULL: not known */
    uint8_t caller_kind;  /* enum salloc_allocation_kind and SA_CALLER_... bits */
    uint8_t stack_first;  /* enum below; see sampling/stack/unwind_fast.c */
    uint16_t stack_pages; /* the same */
    uint32_t number;      /* number of the thread, see sa_sample_thread; 0: none yet */
};

/* Values of stack_first: whether this is the first thread of the process. */
enum { SA_THREAD_UNKNOWN, SA_THREAD_FIRST, SA_THREAD_OTHER };

/* In area.vfork: the process is a copy that a child of vfork has made by fork. */
#define SA_VFORK_OWN 0x80000000u

/* Bits of caller_kind. SA_CALLER_RAISED: the current call has raised the program's use to a new
 * peak, see alloc/page_heap/account/peak.h. SA_CALLER_KIND: the mask of the kind. */
#define SA_CALLER_RAISED 0x80u
#define SA_CALLER_KIND   0x0fu
/* The family of the function that was called. */
#define SA_CALLER_FAMILY(family) ((unsigned)(family) << 4)

/* The word at caller - 16 is the value of rbp at the call, see alloc/api/entry/entry.h. */
#define SA_CALLER_RBP_SAVED 0x40u

SA_STATIC_ASSERT(sizeof(struct sa_thread) == 64, "static TLS is scarce: see the comment above");

extern _Thread_local struct sa_thread sa_thread SA_HIDDEN
    __attribute__((tls_model("initial-exec"), aligned(32)));

/* Whether this thread is a child of vfork in its parent's memory, or is about to have such a
 * child. */
SA_INLINE bool sa_thread_is_vfork_child(void)
{
    return (int32_t)sa_thread.area.vfork > 0;
}

/* Returns the origin of the blocks that a call allocates. kind: as caller_kind; align: the argument
 * of the call, or 0. */
SA_INLINE uint8_t sa_kind_origin(unsigned kind, size_t align)
{
    return (uint8_t)((kind & SA_CALLER_FAMILY(3)) << (SA_ORIGIN_FAMILY - 4) |
                     sa_log2(sa_max(align, 1)));
}

/* The same for the current call. */
SA_INLINE uint8_t sa_caller_origin(size_t align)
{
    return sa_kind_origin(sa_thread.caller_kind, align);
}

#endif
