/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one thread-local block: 64 bytes, initial-exec, so that the library can be dlopened where
 * static TLS is scarce. All zero is a thread that has not been seen yet, and is a valid state.
 *
 * Every field is written by its own thread only.
 */
#ifndef SA_OS_THREAD_H
#define SA_OS_THREAD_H

#include "alloc/base/attrs.h"
#include "alloc/base/bits.h"
#include "alloc/base/origin.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * Laid out like the kernel's struct rseq. Where rseq is missing the fast path is pointed at this
 * area instead of libc's: cpu_id is then the number of the thread's own slab, nobody aborts, and
 * the same instructions serve. Slab 0 is always empty, so a thread not seen yet goes slow.
 */
struct sa_thread_area {
    uint32_t cpu_id_start;
    int32_t cpu_id;
    uint64_t rseq_cs;
    uint32_t flags;
    uint32_t tid;      /* no field of the kernel's: see sa_sample_tid; 0: not known */
    uint32_t vfork;    /* no field of the kernel's either: see alloc/fork/vfork.h; 0: no child;
                          with SA_VFORK_OWN: in memory of its own by now */
    uint32_t filtered; /* nor this: a filter that a child of vfork has for itself, see
                          alloc/os/filter.h */
};

struct sa_thread {
    struct sa_thread_area area;
    uint32_t gate_depth;  /* nesting of slow paths, see alloc/fork/fork_gate.h */
    uint16_t gate_stripe; /* counter that this thread entered by */
    uint16_t past_limit; /* MiB by which its requests may pass the hard limit, see sa_limits_over */
    uint32_t held_ranks; /* debug builds: bit per lock rank held */
    uint8_t slot_state;  /* enum in alloc/cpu_cache/thread_slots.c */
    uint8_t gate_moving; /* see sa_fork_gate_moves */
    uint8_t gate_broken;
    uint8_t sampling;     /* inside the sampler: what it causes to be allocated is not sampled */
    const void *caller;   /* what called the allocator, see alloc/api/entry.h; NULL: not known */
    uint8_t caller_kind;  /* enum salloc_allocation_kind, and the bits of SA_CALLER_... */
    uint8_t stack_first;  /* see sampling/stack/unwind_fast.c */
    uint16_t stack_pages; /* the same */
    uint32_t number;      /* see sa_sample_thread; 0: none yet */
};

/* In area.vfork: the process is a copy that such a child has made by fork. */
#define SA_VFORK_OWN 0x80000000u

/* In caller_kind: the call that runs has made the program's use the highest so far, see
 * alloc/page_heap/account/peak.h. */
#define SA_CALLER_RAISED 0x80u
#define SA_CALLER_KIND   0x0fu
/* And the family of the function that was called. */
#define SA_CALLER_FAMILY(family) ((unsigned)(family) << 4)

/* The word at caller - 16 is the value that rbp had at the call, see alloc/api/entry.h. */
#define SA_CALLER_RBP_SAVED 0x40u

SA_STATIC_ASSERT(sizeof(struct sa_thread) == 64, "static TLS is scarce: see the comment above");

extern _Thread_local struct sa_thread sa_thread SA_HIDDEN
    __attribute__((tls_model("initial-exec"), aligned(32)));

/* Whether this thread is a child of vfork in its parent's memory, or about to have one. */
SA_INLINE bool sa_thread_is_vfork_child(void)
{
    return (int32_t)sa_thread.area.vfork > 0;
}

/* Origin of the blocks of a call; kind: as caller_kind. align: what it was told. */
SA_INLINE uint8_t sa_kind_origin(unsigned kind, size_t align)
{
    return (uint8_t)((kind & SA_CALLER_FAMILY(3)) << (SA_ORIGIN_FAMILY - 4) |
                     sa_log2(sa_max(align, 1)));
}

/* The same for the call that runs. */
SA_INLINE uint8_t sa_caller_origin(size_t align)
{
    return sa_kind_origin(sa_thread.caller_kind, align);
}

#endif
