/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one struct that the fast paths read, behind one base register: the limits and tables of size
 * classes, the pointers to the slabs, and the classes of the home window's pages. All users
 * (pagemap, fork, caches, front end) are layers above.
 *
 * Below the struct are the critical sections of alloc/os/percpu.h as functions, for the slow paths.
 */
#ifndef SA_HOT_HOT_H
#define SA_HOT_HOT_H

#include "alloc/base/attrs.h"
#include "alloc/base/page.h"
#include "alloc/base/size_class.h"
#include "alloc/os/percpu.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Who writes. Start-up (alloc/start/fast_path_open.c) writes the tables and rseq_offset before the
 * limits become non-zero. All are constant afterwards. The limits of C++'s operators become
 * non-zero later, or never. The rest changes while the program runs:
 *
 *   slabs[]             atomic; alloc/fork/cpu_closed.h says who writes an entry; read inside the
 *                       sequences
 *   slab_guard[]        never written
 *   home_class[],
 *   home_any_class[]    atomic, relaxed; written by the owner of the span (pagemap/pagemap.c), read
 *                       by the owners of its objects
 *   aborts              see there
 */
struct sa_hot {
    /* malloc looks up sizes below a limit in the table. A limit is 0 until the library is
     * initialised: every allocation then takes the slow path, without another test. */
    uint64_t small_limit;
    uint64_t mid_limit;
    /* Offset of the rseq area (or struct sa_thread_area) from the thread pointer. */
    int64_t rseq_offset;
    /* The same limits for C++'s operators, and the number of pages of the home window in which
     * delete looks up a pointer. 0 until start-up has asked whether the program has operators of
     * its own, and for good if it has (alloc/api/replaced.h). */
    uint64_t cxx_small_limit;
    uint64_t cxx_mid_limit;
    uint64_t cxx_home_pages;
    /* Indexed by bytes: an entry for each 16 bytes would cost malloc an addition and a shift. */
    uint16_t small_class[SA_SMALL_MAX + 1] __attribute__((aligned(SA_CACHELINE)));
    struct sa_hot_class {
        uint64_t start_check; /* see alloc/front/fast_path.h */
        uint64_t start_mask;
    } of_class[SA_CLASSES] __attribute__((aligned(SA_CACHELINE)));
    uint16_t mid_class[SA_MID_MAX / SA_MID_GRAIN + 1] __attribute__((aligned(SA_CACHELINE)));
    /* Number of sequences that the kernel restarted. Approximate: abort handlers add without a
     * lock. */
    uint64_t aborts __attribute__((aligned(SA_CACHELINE)));
    /* For threads whose rseq is not registered: their CPU number is -1 or -2. */
    struct sa_slab *slab_guard[2] __attribute__((aligned(SA_CACHELINE)));
    struct sa_slab *slabs[SA_SLABS];
    /* For each page of the home window: the header offset of the page's size class, if spans of
     * that class have one page. 0: another class, a large block, free, or no memory of salloc.
     * Writable only where there are spans (pagemap/pagemap.c). */
    uint16_t home_class[SA_HOME_PAGES] __attribute__((aligned(SA_TABLE_ALIGN)));
    /* The number of the class, for every class. This is the home window's leaf of the radix map. */
    uint8_t home_any_class[SA_HOME_PAGES];
};

extern struct sa_hot sa_hot SA_HIDDEN;

/* The place of a size in mid_class. */
SA_INLINE size_t sa_hot_mid_index(size_t size)
{
    return (size + SA_MID_GRAIN - 1) / SA_MID_GRAIN;
}

SA_STATIC_ASSERT(offsetof(struct sa_hot, rseq_offset) == SA_HOT_RSEQ_OFFSET &&
                     offsetof(struct sa_hot, aborts) == SA_HOT_ABORTS &&
                     offsetof(struct sa_hot, slabs) == SA_HOT_SLABS,
                 "the sequences address them with the constants of alloc/os/percpu.h");
SA_STATIC_ASSERT(offsetof(struct sa_hot, slab_guard) + 16 == offsetof(struct sa_hot, slabs),
                 "slab_guard is slabs[-2] and slabs[-1]");

/* Pops an object of the current CPU's slab. NULL: the stack of the class is empty, its countdown
 * has ended, or the slab is stopped. Or SA_PERCPU_RESTARTS is reached, as for all below. */
SA_INLINE void *sa_percpu_pop(size_t cls)
{
    unsigned left = SA_PERCPU_RESTARTS;
    void *obj;

begin:
    SA_PERCPU_POP(&sa_hot, SA_CLASS_OFFSET(cls), obj, slow, again);
    return obj;
again:
    SA_PERCPU_LABEL;
    if (--left)
        goto begin;
slow:
    SA_PERCPU_LABEL;
    return NULL;
}

/* The result of a push. SA_PUSH_FULL: the class is at its capacity, or the slab is stopped.
 * SA_PUSH_TWICE: the object is already on top of the stack, so this is a double free. */
enum sa_push { SA_PUSHED, SA_PUSH_FULL, SA_PUSH_TWICE };

/* Pushes an object to the current CPU's slab. */
SA_INLINE enum sa_push sa_percpu_push(size_t cls, void *obj)
{
    unsigned left = SA_PERCPU_RESTARTS;

begin:
    SA_PERCPU_PUSH(&sa_hot, SA_CLASS_OFFSET(cls), obj, full, twice, again);
    return SA_PUSHED;
again:
    SA_PERCPU_LABEL;
    if (--left)
        goto begin;
full:
    SA_PERCPU_LABEL;
    return SA_PUSH_FULL;
twice:
    SA_PERCPU_LABEL;
    return SA_PUSH_TWICE;
}

/* Pushes as many of the n > 0 objects as the class has room for. Returns their number. */
SA_INLINE size_t sa_percpu_push_batch(size_t cls, void *const *objs, size_t n)
{
    return sa_percpu_push_batch_at(&sa_hot, SA_CLASS_OFFSET(cls), objs, n);
}

/* Pops up to n > 0 objects. Returns their number. The countdown does not count them. */
SA_INLINE size_t sa_percpu_pop_batch(size_t cls, void **out, size_t n)
{
    return sa_percpu_pop_batch_at(&sa_hot, SA_CLASS_OFFSET(cls), out, n);
}

/* Stores another state, if this thread runs on `cpu` with that slab and the state is still
 * `expect`. True if it did. */
SA_INLINE bool sa_percpu_replace(int32_t cpu, struct sa_slab *slab, size_t cls, uint64_t expect,
                                 uint64_t value)
{
    return sa_percpu_store_at(&sa_hot, cpu, slab, SA_CLASS_OFFSET(cls), expect,
                              &slab->header[cls].state, value);
}

/* Gives the class other slots, if its state is still `expect`, in which no slot is filled. True if
 * it did. The caller holds the lock of the cache. */
SA_INLINE bool sa_percpu_move(int32_t cpu, struct sa_slab *slab, size_t cls, uint64_t expect,
                              void **slots)
{
    return sa_percpu_store_at(&sa_hot, cpu, slab, SA_CLASS_OFFSET(cls), expect,
                              &slab->header[cls].slots, (uintptr_t)slots);
}

/* The number of the current CPU or, without rseq, of the thread's slab. Negative: rseq is not
 * registered for this thread. */
SA_INLINE int32_t sa_percpu_cpu(void)
{
    const char *area = (const char *)sa_thread_pointer() + sa_hot.rseq_offset;

    return *(const volatile int32_t *)(area + SA_RSEQ_CPU_ID);
}

#endif
