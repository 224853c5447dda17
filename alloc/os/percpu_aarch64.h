/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The restartable sequences of percpu.h for aarch64. Included by percpu.h only. Same shape as on
 * x86-64: label 0 stores the descriptor, 1 begins, 2 follows the commit, 4 restarts after an abort.
 *
 * The rseq area is addressed through the thread pointer (tpidr_el0) plus its offset. A sequence is
 * seen by threads of the same CPU only, which observe its stores in program order; other CPUs
 * look at a slab only after a membarrier. So no barrier is needed here. The exception is the load
 * of slabs[cpu]: its address dependency orders the accesses through it.
 */
#ifndef SA_OS_PERCPU_AARCH64_H
#define SA_OS_PERCPU_AARCH64_H

#ifndef SA_OS_PERCPU_H
#error "include alloc/os/percpu.h"
#endif

#ifdef SA_PERCPU_DELAY
#define SA_PERCPU_INJECT                                                                           \
    "adrp x17, sa_percpu_delay\n\t"                                                                \
    "ldr w17, [x17, #:lo12:sa_percpu_delay]\n\t"                                                   \
    "8: subs w17, w17, #1\n\t"                                                                     \
    "b.pl 8b\n\t"
#define SA_PERCPU_INJECT_CLOBBER , "x17"
#else
#define SA_PERCPU_INJECT
#define SA_PERCPU_INJECT_CLOBBER
#endif

#define SA_PERCPU_ENTER                                                                            \
    ".pushsection __rseq_cs, \"aw\"\n\t"                                                           \
    ".balign 32\n\t"                                                                               \
    "3: .long 0, 0\n\t"                                                                            \
    ".quad 1f, 2f - 1f, 4f\n\t"                                                                    \
    ".popsection\n\t"                                                                              \
    "0: adrp %[slab], 3b\n\t"                                                                      \
    "add %[slab], %[slab], #:lo12:3b\n\t"                                                          \
    "str %[slab], [%[area], %[rseq_cs]]\n\t"                                                       \
    "1: ldrsw %[slab], [%[area], %[cpu_id]]\n\t"                                                   \
    "ldr %[slab], [%[slabs], %[slab], lsl #3]\n\t"                                                 \
    "add %[head], %[slab], %[cls]\n\t"

#define SA_PERCPU_LEAVE                                                                            \
    "2:\n\t"                                                                                       \
    ".pushsection .text.sa_rseq_abort, \"ax\"\n\t"                                                 \
    ".inst 0xd428bc00\n\t" /* brk #0x45e0, the signature */                                        \
    "4: ldr %[slab], [%[aborts]]\n\t"                                                              \
    "add %[slab], %[slab], #1\n\t"                                                                 \
    "str %[slab], [%[aborts]]\n\t"                                                                 \
    "b 0b\n\t"                                                                                     \
    ".popsection\n\t"

#define SA_PERCPU_INPUTS(hot_, cls_)                                                               \
    [area] "r"((char *)sa_thread_pointer() + (hot_)->rseq_offset), [slabs] "r"((hot_)->slabs),     \
        [aborts] "r"(&(hot_)->aborts), [cls] "r"((uint64_t)(cls_)), [rseq_cs] "i"(SA_RSEQ_CS),     \
        [cpu_id] "i"(SA_RSEQ_CPU_ID), [first] "i"(SA_SLOTS_OFFSET), [cap] "i"(SA_CAP_OFFSET)

SA_INLINE void *sa_thread_pointer(void)
{
    return __builtin_thread_pointer();
}

/* cls is a header offset here and below. */

/* Pops an object into obj and counts down; jumps to slow if the slow path has to look. */
#define SA_PERCPU_POP(hot, cls, obj, slow)                                                         \
    do {                                                                                           \
        uint64_t slab_, head_, count_;                                                             \
        void *obj_;                                                                                \
                                                                                                   \
        __asm__ volatile goto(                                                                     \
            SA_PERCPU_ENTER "ldr %w[count], [%[head]]\n\t"                                         \
                            "ldr %[slab], [%[head], %[first]]\n\t"                                 \
                            "sub %w[count], %w[count], #0x10, lsl #12\n\t"                         \
                            "sub %w[count], %w[count], #8\n\t"                                     \
                            "tst %w[count], #0x80008000\n\t"                                       \
                            "b.ne %l[" #slow "]\n\t"                                               \
                            "and %[ptr], %[count], #0x7fff\n\t"                                    \
                            "ldr %[ptr], [%[slab], %[ptr]]\n\t" SA_PERCPU_INJECT                   \
                            "str %w[count], [%[head]]\n\t" SA_PERCPU_LEAVE                         \
            : [slab] "=&r"(slab_), [head] "=&r"(head_), [count] "=&r"(count_), [ptr] "=&r"(obj_)   \
            : SA_PERCPU_INPUTS(hot, cls)                                                           \
            : "memory", "cc" SA_PERCPU_INJECT_CLOBBER                                              \
            : slow);                                                                               \
        (obj) = obj_;                                                                              \
    } while (0)

/* Pushes an object. Jumps to full if the cache is full or stopped, to twice if the object is on top
 * of it already. */
#define SA_PERCPU_PUSH(hot, cls, obj, full, twice)                                                 \
    do {                                                                                           \
        uint64_t slab_, head_, count_, top_, t_;                                                   \
                                                                                                   \
        __asm__ volatile goto(                                                                     \
            SA_PERCPU_ENTER "ldr %w[count], [%[head]]\n\t"                                         \
                            "ldr %[slab], [%[head], %[first]]\n\t"                                 \
                            "ldrh %w[t], [%[head], %[cap]]\n\t"                                    \
                            "and %[top], %[count], #0x7fff\n\t"                                    \
                            "cmp %w[top], %w[t]\n\t"                                               \
                            "b.hs %l[" #full "]\n\t"                                               \
                            "add %[top], %[slab], %[top]\n\t"                                      \
                            "ldur %[t], [%[top], #-8]\n\t"                                         \
                            "cmp %[t], %[ptr]\n\t"                                                 \
                            "b.eq %l[" #twice "]\n\t"                                              \
                            "str %[ptr], [%[top]]\n\t"                                             \
                            "add %w[count], %w[count], #8\n\t" SA_PERCPU_INJECT                    \
                            "str %w[count], [%[head]]\n\t" SA_PERCPU_LEAVE                         \
            : [slab] "=&r"(slab_), [head] "=&r"(head_), [count] "=&r"(count_),                     \
              [top] "=&r"(top_), [t] "=&r"(t_)                                                     \
            : SA_PERCPU_INPUTS(hot, cls), [ptr] "r"(obj)                                           \
            : "memory", "cc" SA_PERCPU_INJECT_CLOBBER                                              \
            : full, twice);                                                                        \
    } while (0)

/* Pushes as many of objs[0..n) as fit and returns how many; n > 0. */
SA_INLINE size_t sa_percpu_push_batch_at(struct sa_hot *hot, size_t cls, void *const *objs,
                                         size_t n)
{
    uint64_t slab, head, count, k, i, t;

    __asm__ volatile(SA_PERCPU_ENTER
                     "ldr %w[count], [%[head]]\n\t"
                     "ldr %[slab], [%[head], %[first]]\n\t"
                     "and %[t], %[count], #0x7fff\n\t"
                     "add %[slab], %[slab], %[t]\n\t"
                     "ldrh %w[k], [%[head], %[cap]]\n\t"
                     "subs %[k], %[k], %[t]\n\t"
                     "b.ls 6f\n\t" /* filled >= cap */
                     "lsr %[k], %[k], #3\n\t"
                     "cmp %[k], %[n]\n\t"
                     "csel %[k], %[n], %[k], hi\n\t"
                     "mov %[i], #0\n\t"
                     "5: ldr %[t], [%[objs], %[i], lsl #3]\n\t"
                     "str %[t], [%[slab], %[i], lsl #3]\n\t"
                     "add %[i], %[i], #1\n\t"
                     "cmp %[i], %[k]\n\t"
                     "b.lo 5b\n\t"
                     "add %w[count], %w[count], %w[k], lsl #3\n\t" SA_PERCPU_INJECT
                     "str %w[count], [%[head]]\n\t" SA_PERCPU_LEAVE "b 7f\n\t"
                     "6: mov %[k], #0\n\t"
                     "7:"
                     : [slab] "=&r"(slab), [head] "=&r"(head), [count] "=&r"(count), [k] "=&r"(k),
                       [i] "=&r"(i), [t] "=&r"(t)
                     : SA_PERCPU_INPUTS(hot, cls), [objs] "r"(objs), [n] "r"(n)
                     : "memory", "cc" SA_PERCPU_INJECT_CLOBBER);
    return k;
}

/* Pops up to n objects, topmost last, and returns how many; n > 0. Does not count down. */
SA_INLINE size_t sa_percpu_pop_batch_at(struct sa_hot *hot, size_t cls, void **out, size_t n)
{
    uint64_t slab, head, count, k, i, t;

    __asm__ volatile(SA_PERCPU_ENTER
                     "ldr %w[count], [%[head]]\n\t"
                     "ldr %[slab], [%[head], %[first]]\n\t"
                     "and %[k], %[count], #0x7fff\n\t"
                     "add %[slab], %[slab], %[k]\n\t"
                     "lsr %[k], %[k], #3\n\t"
                     "cbz %[k], 7f\n\t" /* k is 0 */
                     "cmp %[k], %[n]\n\t"
                     "csel %[k], %[n], %[k], hi\n\t"
                     "sub %[slab], %[slab], %[k], lsl #3\n\t"
                     "sub %w[count], %w[count], %w[k], lsl #3\n\t"
                     "mov %[i], #0\n\t"
                     "5: ldr %[t], [%[slab], %[i], lsl #3]\n\t"
                     "str %[t], [%[out], %[i], lsl #3]\n\t"
                     "add %[i], %[i], #1\n\t"
                     "cmp %[i], %[k]\n\t"
                     "b.lo 5b\n\t" SA_PERCPU_INJECT
                     "str %w[count], [%[head]]\n\t" SA_PERCPU_LEAVE "7:"
                     : [slab] "=&r"(slab), [head] "=&r"(head), [count] "=&r"(count), [k] "=&r"(k),
                       [i] "=&r"(i), [t] "=&r"(t)
                     : SA_PERCPU_INPUTS(hot, cls), [out] "r"(out), [n] "r"(n)
                     : "memory", "cc" SA_PERCPU_INJECT_CLOBBER);
    return k;
}

/* Replaces a state on the given CPU's given slab if it still reads expect. */
SA_INLINE bool sa_percpu_replace_at(struct sa_hot *hot, int32_t cpu, struct sa_slab *expect_slab,
                                    size_t cls, uint64_t expect, uint64_t value)
{
    uint64_t slab, head, t;

    __asm__ volatile goto(SA_PERCPU_ENTER "ldr %w[t], [%[area], %[cpu_id]]\n\t"
                                 "cmp %w[t], %w[cpu]\n\t"
                                 "b.ne %l[changed]\n\t"
                                 "cmp %[slab], %[expect_slab]\n\t"
                                 "b.ne %l[changed]\n\t"
                                 "ldr %[t], [%[head]]\n\t"
                                 "cmp %[t], %[expect]\n\t"
                                 "b.ne %l[changed]\n\t" SA_PERCPU_INJECT
                                 "str %[value], [%[head]]\n\t" SA_PERCPU_LEAVE
                 : [slab] "=&r"(slab), [head] "=&r"(head), [t] "=&r"(t)
                 : SA_PERCPU_INPUTS(hot, cls), [cpu] "r"(cpu), [expect_slab] "r"(expect_slab),
                   [expect] "r"(expect), [value] "r"(value)
                 : "memory", "cc" SA_PERCPU_INJECT_CLOBBER
                 : changed);
    return true;
changed:
    return false;
}

#endif
