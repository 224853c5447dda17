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
/* Assembly is laid out by hand. */
/* clang-format off */
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

/* The beginning of every sequence, up to the load of cpu_id into %[cpu]. */
#define SA_PERCPU_BEGIN                                                                            \
    ".pushsection __rseq_cs, \"aw\"\n\t"                                                           \
    ".balign 32\n\t"                                                                               \
    "3: .long 0, 0\n\t"                                                                            \
    ".quad 1f, 2f - 1f, 4f\n\t"                                                                    \
    ".popsection\n\t"                                                                              \
    "0: adrp %[cpu], 3b\n\t"                                                                       \
    "add %[cpu], %[cpu], #:lo12:3b\n\t"                                                            \
    "str %[cpu], [%[area], %[rseq_cs]]\n\t"                                                        \
    "1: ldrsw %[cpu], [%[area], %[cpu_id]]\n\t"

/* Then the load of the slab's address. One instruction more than with a register that points to the
 * slabs, but no instruction to set that register. */
#define SA_PERCPU_SLAB                                                                             \
    "add %[cpu], %[hot], %[cpu], lsl #3\n\t"                                                       \
    "ldr %[cpu], [%[cpu], %[slabs]]\n\t"

/* The end of every sequence. After an abort, the thread continues at `restart`. */
#define SA_PERCPU_END(restart)                                                                     \
    "2:\n\t"                                                                                       \
    ".pushsection .text.sa_rseq_abort, \"ax\"\n\t"                                                 \
    ".inst 0xd428bc00\n\t" /* brk #0x45e0, the signature */                                        \
    "4: add %[cpu], %[hot], %[aborts_page], lsl #12\n\t"                                           \
    "ldr %[head], [%[cpu], %[aborts_rest]]\n\t"                                                    \
    "add %[head], %[head], #1\n\t"                                                                 \
    "str %[head], [%[cpu], %[aborts_rest]]\n\t"                                                    \
    "b " restart "\n\t"                                                                            \
    ".popsection\n\t"

/* The sequences of slow paths find slab and header. They restart at their own beginning, [left]
 * times; the last abort runs `otherwise`, which leaves without a change to the slab. */
#define SA_PERCPU_ENTER SA_PERCPU_BEGIN SA_PERCPU_SLAB "add %[head], %[cpu], %[cls]\n\t"
#define SA_PERCPU_LEAVE(otherwise)                                                                 \
    SA_PERCPU_END("9f")                                                                            \
    ".pushsection .text.sa_rseq_abort, \"ax\"\n\t"                                                 \
    "9: subs %w[left], %w[left], #1\n\t"                                                          \
    "b.ne 0b\n\t" otherwise "\n\t"                                                               \
    ".popsection\n\t"

#define SA_PERCPU_AREA(hot_) [area] "r"((char *)sa_thread_pointer() + SA_PERCPU_AREA_OFFSET(hot_))

#define SA_PERCPU_CONSTANTS                                                                        \
    [slabs] "i"(SA_HOT_SLABS),                                                                     \
        [aborts_page] "i"(SA_HOT_ABORTS >> 12),                                                    \
        [aborts_rest] "i"(SA_HOT_ABORTS & 0xfff), [rseq_cs] "i"(SA_RSEQ_CS),                       \
        [cpu_id] "i"(SA_RSEQ_CPU_ID), [slots] "i"(SA_SLOTS_OFFSET), [cap] "i"(SA_CAP_OFFSET),      \
        [filled] "i"(SA_FILLED_MASK), [borrows] "i"(SA_BORROWS)

#define SA_PERCPU_INPUTS(hot_, cls_)                                                               \
    [hot] "r"(hot_), SA_PERCPU_AREA(hot_), [cls] "r"((uint64_t)(cls_)), SA_PERCPU_CONSTANTS

SA_STATIC_ASSERT(SA_HOT_SLABS <= 4095 * 8 &&
                     SA_HOT_ABORTS < 1 << 24,
                 "they are immediate operands of one instruction");
SA_STATIC_ASSERT(SA_POP_ONE == ((0x10 << 12) | 8), "a pop subtracts it in two steps");

SA_INLINE void *sa_thread_pointer(void)
{
    return __builtin_thread_pointer();
}

/*
 * The two sequences of the fast path. cls is a header offset, and its register is consumed: the
 * header's address is computed there. So after an abort control goes to the label `again`, where
 * the caller computes the class once more. Both leave through a label without a change to the slab.
 */

/* Pops an object into obj and counts down; to slow if the slow path has to look. */
#define SA_PERCPU_POP(hot_, cls, obj, slow, again)                                                 \
    do {                                                                                           \
        uint64_t cpu_, head_ = (cls), count_;                                                      \
        void *obj_;                                                                                \
                                                                                                   \
        __asm__ volatile goto(                                                                     \
            SA_PERCPU_BEGIN SA_PERCPU_SLAB                                                         \
            "add %[head], %[head], %[cpu]\n\t"                                                     \
            "ldr %w[count], [%[head]]\n\t"                                                         \
            "ldr %[cpu], [%[head], %[slots]]\n\t"                                                  \
            "sub %w[count], %w[count], #0x10, lsl #12\n\t"                                         \
            "sub %w[count], %w[count], #8\n\t"                                                     \
            "tst %w[count], %[borrows]\n\t"                                                        \
            "b.ne %l[" #slow "]\n\t"                                                               \
            "and %[ptr], %[count], %[filled]\n\t"                                                  \
            "ldr %[ptr], [%[cpu], %[ptr]]\n\t" SA_PERCPU_INJECT                                    \
            "str %w[count], [%[head]]\n\t" SA_PERCPU_END("%l[" #again "]")                         \
            : [cpu] "=&r"(cpu_), [head] "+&r"(head_), [count] "=&r"(count_), [ptr] "=&r"(obj_)     \
            : [hot] "r"(hot_), SA_PERCPU_AREA(hot_), SA_PERCPU_CONSTANTS                           \
            : "memory", "cc" SA_PERCPU_INJECT_CLOBBER                                              \
            : slow, again);                                                                        \
        (obj) = obj_;                                                                              \
    } while (0)

/* Pushes an object. To full if the cache is full or stopped, to twice if the object is on top of it
 * already. */
#define SA_PERCPU_PUSH(hot_, cls, obj, full, twice, again)                                         \
    do {                                                                                           \
        uint64_t cpu_, head_ = (cls), count_, top_, t_;                                            \
                                                                                                   \
        __asm__ volatile goto(                                                                     \
            SA_PERCPU_BEGIN SA_PERCPU_SLAB                                                         \
            "add %[head], %[head], %[cpu]\n\t"                                                     \
            "ldr %w[count], [%[head]]\n\t"                                                         \
            "ldrh %w[t], [%[head], %[cap]]\n\t"                                                    \
            "ldr %[cpu], [%[head], %[slots]]\n\t"                                                  \
            "and %[top], %[count], %[filled]\n\t"                                                  \
            "cmp %w[top], %w[t]\n\t"                                                               \
            "b.hs %l[" #full "]\n\t"                                                               \
            "add %[top], %[cpu], %[top]\n\t"                                                       \
            "ldur %[t], [%[top], #-8]\n\t"                                                         \
            "cmp %[t], %[ptr]\n\t"                                                                 \
            "b.eq %l[" #twice "]\n\t"                                                              \
            "str %[ptr], [%[top]]\n\t"                                                             \
            "add %w[count], %w[count], #8\n\t" SA_PERCPU_INJECT                                    \
            "str %w[count], [%[head]]\n\t" SA_PERCPU_END("%l[" #again "]")                         \
            : [cpu] "=&r"(cpu_), [head] "+&r"(head_), [count] "=&r"(count_), [top] "=&r"(top_),    \
              [t] "=&r"(t_)                                                                        \
            : [hot] "r"(hot_), SA_PERCPU_AREA(hot_), [ptr] "r"(obj), SA_PERCPU_CONSTANTS           \
            : "memory", "cc" SA_PERCPU_INJECT_CLOBBER                                              \
            : full, twice, again);                                                                 \
    } while (0)

/* cls is a header offset below. */

/* Pushes as many of objs[0..n) as fit and returns how many; n > 0. */
SA_INLINE size_t sa_percpu_push_batch_at(void *hot, size_t cls, void *const *objs,
                                         size_t n)
{
    uint64_t slab, head, count, k, i, t;
    uint32_t left = SA_PERCPU_RESTARTS;

    __asm__ volatile(SA_PERCPU_ENTER
                     "ldr %w[count], [%[head]]\n\t"
                     "ldr %[cpu], [%[head], %[slots]]\n\t"
                     "and %[t], %[count], %[filled]\n\t"
                     "add %[cpu], %[cpu], %[t]\n\t"
                     "ldrh %w[k], [%[head], %[cap]]\n\t"
                     "subs %[k], %[k], %[t]\n\t"
                     "b.ls 6f\n\t" /* filled >= cap */
                     "lsr %[k], %[k], #3\n\t"
                     "cmp %[k], %[n]\n\t"
                     "csel %[k], %[n], %[k], hi\n\t"
                     "mov %[i], #0\n\t"
                     "5: ldr %[t], [%[objs], %[i], lsl #3]\n\t"
                     "str %[t], [%[cpu], %[i], lsl #3]\n\t"
                     "add %[i], %[i], #1\n\t"
                     "cmp %[i], %[k]\n\t"
                     "b.lo 5b\n\t"
                     "add %w[count], %w[count], %w[k], lsl #3\n\t" SA_PERCPU_INJECT
                     "str %w[count], [%[head]]\n\t" SA_PERCPU_LEAVE("b 6f") "b 7f\n\t"
                     "6: mov %[k], #0\n\t"
                     "7:"
                     : [cpu] "=&r"(slab), [head] "=&r"(head), [count] "=&r"(count), [k] "=&r"(k),
                       [i] "=&r"(i), [t] "=&r"(t), [left] "+&r"(left)
                     : SA_PERCPU_INPUTS(hot, cls), [objs] "r"(objs), [n] "r"(n)
                     : "memory", "cc" SA_PERCPU_INJECT_CLOBBER);
    return k;
}

/* Pops up to n objects, topmost last, and returns how many; n > 0. Does not count down. */
SA_INLINE size_t sa_percpu_pop_batch_at(void *hot, size_t cls, void **out, size_t n)
{
    uint64_t slab, head, count, k, i, t;
    uint32_t left = SA_PERCPU_RESTARTS;

    __asm__ volatile(SA_PERCPU_ENTER
                     "ldr %w[count], [%[head]]\n\t"
                     "ldr %[cpu], [%[head], %[slots]]\n\t"
                     "and %[k], %[count], %[filled]\n\t"
                     "add %[cpu], %[cpu], %[k]\n\t"
                     "lsr %[k], %[k], #3\n\t"
                     "cbz %[k], 7f\n\t" /* k is 0 */
                     "cmp %[k], %[n]\n\t"
                     "csel %[k], %[n], %[k], hi\n\t"
                     "sub %[cpu], %[cpu], %[k], lsl #3\n\t"
                     "sub %w[count], %w[count], %w[k], lsl #3\n\t"
                     "mov %[i], #0\n\t"
                     "5: ldr %[t], [%[cpu], %[i], lsl #3]\n\t"
                     "str %[t], [%[out], %[i], lsl #3]\n\t"
                     "add %[i], %[i], #1\n\t"
                     "cmp %[i], %[k]\n\t"
                     "b.lo 5b\n\t" SA_PERCPU_INJECT
                     "str %w[count], [%[head]]\n\t"
                     SA_PERCPU_LEAVE("mov %[k], #0\n\tb 7f") "7:"
                     : [cpu] "=&r"(slab), [head] "=&r"(head), [count] "=&r"(count), [k] "=&r"(k),
                       [i] "=&r"(i), [t] "=&r"(t), [left] "+&r"(left)
                     : SA_PERCPU_INPUTS(hot, cls), [out] "r"(out), [n] "r"(n)
                     : "memory", "cc" SA_PERCPU_INJECT_CLOBBER);
    return k;
}

/* Stores a word if this is the given CPU with the given slab, and the state still reads expect. */
SA_INLINE bool sa_percpu_store_at(void *hot, int32_t cpu, struct sa_slab *expect_slab,
                                  size_t cls, uint64_t expect, void *word, uint64_t value)
{
    uint64_t slab, head, t;
    uint32_t left = SA_PERCPU_RESTARTS;

    __asm__ volatile goto(SA_PERCPU_ENTER "ldr %w[t], [%[area], %[cpu_id]]\n\t"
                                 "cmp %w[t], %w[of_cpu]\n\t"
                                 "b.ne %l[changed]\n\t"
                                 "cmp %[cpu], %[of_slab]\n\t"
                                 "b.ne %l[changed]\n\t"
                                 "ldr %[t], [%[head]]\n\t"
                                 "cmp %[t], %[expect]\n\t"
                                 "b.ne %l[changed]\n\t" SA_PERCPU_INJECT
                                 "str %[value], [%[word]]\n\t" SA_PERCPU_LEAVE("b %l[changed]")
                 : [cpu] "=&r"(slab), [head] "=&r"(head), [t] "=&r"(t), [left] "+&r"(left)
                 : SA_PERCPU_INPUTS(hot, cls), [of_cpu] "r"(cpu), [of_slab] "r"(expect_slab),
                   [expect] "r"(expect), [word] "r"(word), [value] "r"(value)
                 : "memory", "cc" SA_PERCPU_INJECT_CLOBBER
                 : changed);
    return true;
changed:
    SA_PERCPU_LABEL;
    return false;
}

#endif
