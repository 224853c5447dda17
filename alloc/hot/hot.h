/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one struct that the fast paths read, behind one base register: the limits and tables of size
 * classes, the pointers to the slabs, the classes of the home window's pages. Each of its users
 * (pagemap, fork, caches, front end) is in a layer above.
 *
 * Below it: the critical sections of alloc/os/percpu.h as functions, for the slow paths.
 */
#ifndef SA_HOT_HOT_H
#define SA_HOT_HOT_H

#include "alloc/base/attrs.h"
#include "alloc/base/page.h"
#include "alloc/os/percpu.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Start-up (alloc/front/slow_path.c) writes the tables before the limits become non-zero; both are
 * constant afterwards. The limits of C++'s operators become non-zero later, or never. Two arrays
 * change while the program runs:
 *
 *   slabs[]               written under the lock of the CPU's cache, read inside the sequences
 *   home_class[],
 *   home_any_class[]      written by the owner of the span, read by the owners of its objects
 */
struct sa_hot {
    /* malloc looks sizes below a limit up in the table. A limit is 0 until the library is
     * initialised: every allocation then takes the slow path, without a test of its own. */
    uint64_t small_limit;
    uint64_t mid_limit;
    /* Offset of the rseq area (or struct sa_thread_area) from the thread pointer. */
    int64_t rseq_offset;
    /* The same limits for C++'s operators, and the number of pages of the home window in which
     * delete looks a pointer up. 0 also where the program has operators of its own
     * (alloc/api/replaced.h). */
    uint64_t cxx_small_limit;
    uint64_t cxx_mid_limit;
    uint64_t cxx_home_pages;
    /* Indexed by bytes: an entry for each 16 bytes costs malloc an addition and a shift. */
    uint16_t small_class[SA_SMALL_MAX + 1] __attribute__((aligned(SA_CACHELINE)));
    struct sa_hot_class {
        uint64_t start_check; /* see alloc/front/fast_path.h */
        uint64_t start_mask;
    } of_class[SA_CLASSES_MAX] __attribute__((aligned(SA_CACHELINE)));
    uint16_t mid_class[SA_MID_MAX / 128 + 1] __attribute__((aligned(SA_CACHELINE)));
    /* Sequences that the kernel restarted. Approximate: abort handlers add without a lock. */
    uint64_t aborts __attribute__((aligned(SA_CACHELINE)));
    struct sa_slab *slab_guard[2] __attribute__((aligned(SA_CACHELINE)));
    struct sa_slab *slabs[SA_SLABS];
    /* For each page of the home window: the offset of the header of its size class, if spans of the
     * class have one page. 0: another class, a large block, free, or not memory of salloc. Writable
     * only where there are spans (pagemap/pagemap.c). */
    uint16_t home_class[SA_HOME_PAGES] __attribute__((aligned(SA_TABLE_ALIGN)));
    /* The number of the class, for every class: the home window's leaf of the radix map. */
    uint8_t home_any_class[SA_HOME_PAGES];
};

extern struct sa_hot sa_hot SA_HIDDEN;

SA_STATIC_ASSERT(offsetof(struct sa_hot, rseq_offset) == SA_HOT_RSEQ_OFFSET &&
                     offsetof(struct sa_hot, aborts) == SA_HOT_ABORTS &&
                     offsetof(struct sa_hot, slabs) == SA_HOT_SLABS,
                 "the sequences address them with the constants of alloc/os/percpu.h");
SA_STATIC_ASSERT(offsetof(struct sa_hot, slab_guard) + 16 == offsetof(struct sa_hot, slabs),
                 "slab_guard is slabs[-2] and slabs[-1]");

/* Pops an object of the current CPU's slab. NULL: the stack of the class is empty, its countdown
 * has ended, or the slab is stopped. */
SA_INLINE void *sa_percpu_pop(size_t cls)
{
    void *obj;

again:
    SA_PERCPU_POP(&sa_hot, SA_CLASS_OFFSET(cls), obj, slow, again);
    return obj;
slow:
    SA_PERCPU_LABEL;
    return NULL;
}

/* SA_PUSH_FULL: the class is at its capacity, or the slab is stopped. SA_PUSH_TWICE: the object is
 * on top of the stack already, so this is a double free. */
enum sa_push { SA_PUSHED, SA_PUSH_FULL, SA_PUSH_TWICE };

SA_INLINE enum sa_push sa_percpu_push(size_t cls, void *obj)
{
again:
    SA_PERCPU_PUSH(&sa_hot, SA_CLASS_OFFSET(cls), obj, full, twice, again);
    return SA_PUSHED;
full:
    SA_PERCPU_LABEL;
    return SA_PUSH_FULL;
twice:
    SA_PERCPU_LABEL;
    return SA_PUSH_TWICE;
}

/* Pushes as many of the n > 0 objects as the class has room for; how many. */
SA_INLINE size_t sa_percpu_push_batch(size_t cls, void *const *objs, size_t n)
{
    return sa_percpu_push_batch_at(&sa_hot, SA_CLASS_OFFSET(cls), objs, n);
}

/* Pops up to n > 0 objects; how many. The countdown does not count them. */
SA_INLINE size_t sa_percpu_pop_batch(size_t cls, void **out, size_t n)
{
    return sa_percpu_pop_batch_at(&sa_hot, SA_CLASS_OFFSET(cls), out, n);
}

/* Stores another state, if this is `cpu` with that slab and the state is still `expect`. */
SA_INLINE bool sa_percpu_replace(int32_t cpu, struct sa_slab *slab, size_t cls, uint64_t expect,
                                 uint64_t value)
{
    return sa_percpu_store_at(&sa_hot, cpu, slab, SA_CLASS_OFFSET(cls), expect,
                              &slab->header[cls].state, value);
}

/* Gives the class other slots, if its state is still `expect`, in which nothing is filled. */
SA_INLINE bool sa_percpu_move(int32_t cpu, struct sa_slab *slab, size_t cls, uint64_t expect,
                              void **slots)
{
    return sa_percpu_store_at(&sa_hot, cpu, slab, SA_CLASS_OFFSET(cls), expect,
                              &slab->header[cls].slots, (uintptr_t)slots);
}

/* The number of the current CPU, or of the thread's slab. Negative: rseq is not registered for this
 * thread. */
SA_INLINE int32_t sa_percpu_cpu(void)
{
    const char *area = (const char *)sa_thread_pointer() + sa_hot.rseq_offset;

    return *(const volatile int32_t *)(area + SA_RSEQ_CPU_ID);
}

#endif
