/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The per-CPU slabs: their layout, and what the critical sections that work on them do.
 *
 * Layout. A slab is a 16-byte header per size class followed by the slots of all classes:
 *
 *   state (8 bytes):  bits  0..14  filled        bytes of slots that hold objects, 8 for each
 *                     bit  15      borrow
 *                     bits 16..30  until_sample  pops until the countdown ends
 *                     bit  31      borrow
 *                     bits 32..47  cap           bytes of slots that may be filled (filled <= cap)
 *                     bit  48      due           the pop at the end of the countdown is sampled
 *                     bits 49..63  generation    of the probabilities that the countdown was drawn
 *                                  by
 *   slots (8 bytes):  address of the class's first slot; the word before it is always 0. Changes
 *                     only by move, under the cache's lock
 *
 * A header of zero is an empty cache that accepts nothing: every operation on it takes the slow
 * path. A CPU that was never used, a slab that another thread changes, and a stopped cache have
 * such headers.
 *
 * Operations. Each is one restartable sequence on the slab of the current CPU (or, without rseq, of
 * the current thread). In the notation "load ... / commit store":
 *
 *   pop(cls)         s = slabs[cpu]; h = load32(s.header[cls].state) - 0x00010008
 *                    if h & 0x80008000: goto slow
 *                    obj = load(s.header[cls].slots + filled(h)); commit store32(state, h)
 *   push(cls, p)     s = slabs[cpu]; h = load32(s.header[cls].state)
 *                    if filled(h) >= cap: goto full
 *                    top = s.header[cls].slots + filled(h); if load(top - 8) == p: goto twice
 *                    store(top, p); commit store32(state, h + 8)
 *   push_batch(n)    k = min(n, room); slots above filled = objs[0..k); commit store32(h + 8 k);
 *                    returns k
 *   pop_batch(n)     k = min(n, filled / 8); out[0..k) = topmost k slots; commit store32(h - 8 k);
 *                    returns k. Does not count down.
 *   replace(...)     if cpu and slabs[cpu] are as given and load64(state) == expect:
 *                    commit store64(state, value); returns whether it did
 *   move(...)        the same with store64(slots, ...); expect says that nothing is filled
 *
 * The argument for their correctness is in doc/rseq.md: the commit is the last instruction and one
 * store; everything stored before it goes to slots that no other sequence reads until the commit;
 * preemption, migration and signals restart a sequence that has not committed.
 *
 * Their speed depends on the chain of dependent instructions from one operation to the next on the
 * same header. So the fast path always accesses the packed word 32 bits wide, and headers and slots
 * without an index register: stores then forward to the next load at little cost. Classes and
 * counts are byte offsets, so that an addition makes an address.
 *
 * cpu is read sign-extended, so that a thread whose rseq is not registered (cpu_id -1 or -2) uses
 * slab_guard, which is always empty.
 */
#ifndef SA_OS_PERCPU_H
#define SA_OS_PERCPU_H

#include "alloc/base/attrs.h"
#include "alloc/base/bits.h"
#include "alloc/base/page.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SA_SLABS 8192 /* possible CPU numbers (the largest kernel configuration) */

#define SA_FILLED_MASK      0x7fffu
#define SA_BORROWS          0x80008000u
#define SA_POP_ONE          0x10008u /* one object less, one count less */
#define SA_UNTIL_SHIFT      16
#define SA_UNTIL_MAX        0x7fffu
#define SA_SLOTS_MAX        (SA_FILLED_MASK / 8) /* capacity of a class at most */
#define SA_CAP_OFFSET       4
#define SA_STATE_DUE        (1ull << 48)
#define SA_GENERATION_SHIFT 49
#define SA_GENERATION_MASK  0x7fffu
#define SA_SLOTS_OFFSET     8

/*
 * A sequence of a slow path begins at most SA_PERCPU_RESTARTS times, and then says that it has
 * found nothing to do: that the stack is empty, or full, or that the state has changed. The caller
 * goes on with the transfer cache, under its lock. Few sequences are restarted twice, as a time
 * slice has millions of instructions. But a debugger that steps, or a machine that is preempted at
 * each instruction, restarts all of them.
 */
#define SA_PERCPU_RESTARTS 4

/* Offsets in the kernel's struct rseq (and in struct sa_thread_area). */
#define SA_RSEQ_CPU_ID 4
#define SA_RSEQ_CS     8

struct sa_header {
    uint64_t state; /* written by the critical sections of the CPU, or by the thread that has
                       stopped it */
    void **slots;   /* the same */
};

struct sa_slab {
    struct sa_header header[SA_CLASSES_MAX];
    void *slot[];
};

/* Bytes from the beginning of a page to the slab. The record of the CPU's cache lies before it. */
#define SA_SLAB_BEGIN 2944

/* Classes are passed to the sequences, and kept in the tables, as offsets of their headers. */
#define SA_CLASS_OFFSET(cls) ((cls) * sizeof(struct sa_header))

/*
 * What the sequences access through their base register, as offsets in struct sa_hot
 * (alloc/hot/hot.h), which asserts them: the offset of the rseq area from the thread pointer; the
 * count of restarts; the pointers to the slabs, by CPU number.
 */
#define SA_HOT_RSEQ_OFFSET 16
#define SA_HOT_ABORTS      12032
#define SA_HOT_SLABS       12112

/* The offset of the rseq area (or struct sa_thread_area) from the thread pointer. */
#define SA_PERCPU_AREA_OFFSET(hot) (*(const int64_t *)((const char *)(hot) + SA_HOT_RSEQ_OFFSET))

/*
 * Follows a label that sequences jump to, where its block would be empty otherwise. gcc 12 loses
 * the copy of a value on the edge from an asm goto with outputs to such a label (gcc bugs 110420,
 * 110422): a pop that failed returned the contents of a register instead of NULL. test_percpu found
 * it.
 */
#define SA_PERCPU_LABEL __asm__ volatile("")

#if defined(__x86_64__)
#include "alloc/os/percpu_x86_64.h"
#elif defined(__aarch64__)
#include "alloc/os/percpu_aarch64.h"
#else
#error "salloc has critical sections for x86-64 and aarch64 only"
#endif

/* Fields of a state: objects in the cache; pops until the countdown ends; objects that fit. */
SA_INLINE uint32_t sa_state_avail(uint64_t state)
{
    return ((uint32_t)state & SA_FILLED_MASK) / 8;
}

SA_INLINE uint32_t sa_state_until(uint64_t state)
{
    return (uint32_t)state >> SA_UNTIL_SHIFT & SA_UNTIL_MAX;
}

SA_INLINE uint32_t sa_state_cap(uint64_t state)
{
    return (uint32_t)(state >> 32 & 0xffff) / 8;
}

/* Returns a state whose countdown decides nothing: at its end a new one is drawn. */
SA_INLINE uint64_t sa_state_make(uint32_t avail, uint32_t until, uint32_t cap)
{
    return (uint64_t)cap * 8 << 32 | (uint64_t)until << SA_UNTIL_SHIFT | avail * 8;
}

/* Returns the state with another content and capacity, and the same countdown. */
SA_INLINE uint64_t sa_state_with(uint64_t state, uint32_t avail, uint32_t cap)
{
    return (state & ~(0xffffull << 32 | SA_FILLED_MASK)) | (uint64_t)cap * 8 << 32 | avail * 8;
}

/* Returns the state with another countdown, and the same content and capacity. */
SA_INLINE uint64_t sa_state_arm(uint64_t state, uint32_t until, bool due, uint32_t generation)
{
    return (state & (0xffffull << 32 | SA_FILLED_MASK)) | (uint64_t)until << SA_UNTIL_SHIFT |
           (due ? SA_STATE_DUE : 0) |
           (uint64_t)(generation & SA_GENERATION_MASK) << SA_GENERATION_SHIFT;
}

/* Whether the countdown has ended with a success, under the probabilities of its generation. */
SA_INLINE bool sa_state_is_due(uint64_t state)
{
    return (state & SA_STATE_DUE) && sa_state_until(state) == 0;
}

/* The generation of the probabilities by which the countdown was drawn, modulo 2^15. */
SA_INLINE uint32_t sa_state_generation(uint64_t state)
{
    return (uint32_t)(state >> SA_GENERATION_SHIFT);
}

#endif
