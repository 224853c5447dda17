/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The restartable sequences of percpu.h for x86-64. Included by percpu.h only.
 *
 * Shape of each: label 0 stores the descriptor's address to rseq_cs; 1 is the first instruction of
 * the sequence and 2 the one after the commit; 4 is where the kernel resumes a thread that it
 * interrupted in between: there the thread counts the abort and begins the sequence again. Labels
 * are numeric because every place that inlines a sequence emits it once more.
 *
 * The sequences own the slab of their CPU (percpu.h). Besides it, they write rseq_cs of their
 * thread, and the count of restarts, where a lost addition does no harm.
 */
/* Assembly is laid out by hand. */
/* clang-format off */
#ifndef SA_OS_PERCPU_X86_64_H
#define SA_OS_PERCPU_X86_64_H

#ifndef SA_OS_PERCPU_H
#error "include alloc/os/percpu.h"
#endif

/*
 * Test builds lengthen the sequences right before the commit, so that preemption hits them.
 * SA_PERCPU_DELAY is the number of turns, an external variable of the test.
 */
#ifdef SA_PERCPU_DELAY
#define SA_PERCPU_INJECT                                                                           \
    "movl sa_percpu_delay(%%rip), %%r11d\n\t"                                                      \
    "8: subl $1, %%r11d\n\t"                                                                       \
    "jns 8b\n\t"
#define SA_PERCPU_INJECT_CLOBBER , "r11"
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
    "0: leaq 3b(%%rip), %[cpu]\n\t"                                                                \
    "movq %[cpu], %%fs:%c[rseq_cs](%[off])\n\t"                                                    \
    "1: movslq %%fs:%c[cpu_id](%[off]), %[cpu]\n\t"

/* The end of every sequence. After an abort, the thread continues at `restart`. */
#define SA_PERCPU_END(restart)                                                                     \
    "2:\n\t"                                                                                       \
    ".pushsection .text.sa_rseq_abort, \"ax\"\n\t"                                                 \
    ".byte 0x0f, 0xb9, 0x3d\n\t" /* ud1: a disassembler shows the signature as its operand */  \
    ".long 0x53053053\n\t"                                                                         \
    "4: incq %c[aborts](%[hot])\n\t"                                                               \
    "jmp " restart "\n\t"                                                                          \
    ".popsection\n\t"

/* The sequences of slow paths find slab and header. They restart at their own beginning, [left]
 * times; the last abort runs `otherwise`, which leaves without a change to the slab. */
#define SA_PERCPU_ENTER                                                                            \
    SA_PERCPU_BEGIN "movq %c[slabs](%[hot],%[cpu],8), %[cpu]\n\t"                                  \
                    "leaq (%[cpu],%[cls]), %[head]\n\t"
#define SA_PERCPU_LEAVE(otherwise)                                                                 \
    SA_PERCPU_END("9f")                                                                            \
    ".pushsection .text.sa_rseq_abort, \"ax\"\n\t"                                                 \
    "9: decl %k[left]\n\t"                                                                         \
    "jnz 0b\n\t" otherwise "\n\t"                                                                 \
    ".popsection\n\t"

/* Copies %[k] > 0 words: first one and two for the remainder modulo four, then four at a time. A
 * restarted sequence copies again, to slots that no other sequence reads yet. */
#define SA_PERCPU_COPY(from, to)                                                                   \
    "xorl %k[i], %k[i]\n\t"                                                                        \
    "testb $1, %b[k]\n\t"                                                                         \
    "jz 5f\n\t"                                                                                   \
    "movq (" from "), %[t]\n\t"                                                                   \
    "movq %[t], (" to ")\n\t"                                                                     \
    "incl %k[i]\n\t"                                                                              \
    "5: testb $2, %b[k]\n\t"                                                                      \
    "jz 9f\n\t"                                                                                   \
    "movups (" from ",%[i],8), %%xmm0\n\t"                                                        \
    "movups %%xmm0, (" to ",%[i],8)\n\t"                                                          \
    "addl $2, %k[i]\n\t"                                                                          \
    "9: cmpq %[k], %[i]\n\t"                                                                      \
    "jae 9f\n\t"                                                                                  \
    "5: movups (" from ",%[i],8), %%xmm0\n\t"                                                     \
    "movups 16(" from ",%[i],8), %%xmm1\n\t"                                                      \
    "movups %%xmm0, (" to ",%[i],8)\n\t"                                                          \
    "movups %%xmm1, 16(" to ",%[i],8)\n\t"                                                        \
    "addq $4, %[i]\n\t"                                                                           \
    "cmpq %[k], %[i]\n\t"                                                                         \
    "jb 5b\n\t"                                                                                   \
    "9:\n\t"
#define SA_PERCPU_COPY_CLOBBER , "xmm0", "xmm1"

#define SA_PERCPU_INPUTS(hot_, cls_)                                                               \
    [hot] "r"(hot_), [off] "r"(SA_PERCPU_AREA_OFFSET(hot_)), [cls] "r"((uint64_t)(cls_)),          \
        SA_PERCPU_CONSTANTS

#define SA_PERCPU_CONSTANTS                                                                        \
        [slabs] "i"(SA_HOT_SLABS), [aborts] "i"(SA_HOT_ABORTS), \
        [rseq_cs] "i"(SA_RSEQ_CS), [cpu_id] "i"(SA_RSEQ_CPU_ID), [slots] "i"(SA_SLOTS_OFFSET),     \
        [cap] "i"(SA_CAP_OFFSET), [borrows] "i"(SA_BORROWS), [one] "i"(SA_POP_ONE)

SA_INLINE void *sa_thread_pointer(void)
{
    void *tp;

    __asm__("movq %%fs:0, %0" : "=r"(tp));
    return tp;
}

/*
 * The two sequences of the fast path. cls is a header offset, and its register is consumed: the
 * header's address is computed there. So after an abort control goes to the label `again`, where
 * the caller computes the class once more. Both leave through a label without a change to the slab.
 */

/* Pops an object into obj and counts down. Jumps to `slow` if the slow path must decide. */
#define SA_PERCPU_POP(hot_, cls, obj, slow, again)                                                 \
    do {                                                                                           \
        uint64_t cpu_, head_ = (cls), count_;                                                      \
        void *obj_;                                                                                \
                                                                                                   \
        __asm__ volatile goto(                                                                     \
            SA_PERCPU_BEGIN "addq %c[slabs](%[hot],%[cpu],8), %[head]\n\t"                         \
                            "movl (%[head]), %k[count]\n\t"                                        \
                            "subl %[one], %k[count]\n\t"                                           \
                            "testl %[borrows], %k[count]\n\t"                                      \
                            "jnz %l[" #slow "]\n\t"                                                \
                            "movzwl %w[count], %k[ptr]\n\t"                                        \
                            "addq %c[slots](%[head]), %[ptr]\n\t"                                  \
                            "movq (%[ptr]), %[ptr]\n\t" SA_PERCPU_INJECT                           \
                            "movl %k[count], (%[head])\n\t" SA_PERCPU_END("%l[" #again "]")        \
            : [cpu] "=&r"(cpu_), [head] "+&r"(head_), [count] "=&r"(count_), [ptr] "=&a"(obj_)     \
            : [hot] "r"(hot_), [off] "r"(SA_PERCPU_AREA_OFFSET(hot_)), SA_PERCPU_CONSTANTS         \
            : "memory", "cc" SA_PERCPU_INJECT_CLOBBER                                              \
            : slow, again);                                                                        \
        (obj) = obj_;                                                                              \
    } while (0)

/* Pushes an object. Jumps to `full` if the cache is full or stopped, and to `twice` if the object
 * is already the topmost one. */
#define SA_PERCPU_PUSH(hot_, cls, obj, full, twice, again)                                         \
    do {                                                                                           \
        uint64_t cpu_, head_ = (cls), top_, count_;                                                \
                                                                                                   \
        __asm__ volatile goto(                                                                     \
            SA_PERCPU_BEGIN "addq %c[slabs](%[hot],%[cpu],8), %[head]\n\t"                         \
                            "movl (%[head]), %k[count]\n\t"                                        \
                            "cmpw %c[cap](%[head]), %w[count]\n\t"                                 \
                            "jae %l[" #full "]\n\t"                                                \
                            "movzwl %w[count], %k[top]\n\t"                                        \
                            "addq %c[slots](%[head]), %[top]\n\t"                                  \
                            "cmpq %[ptr], -8(%[top])\n\t"                                          \
                            "je %l[" #twice "]\n\t"                                                \
                            "movq %[ptr], (%[top])\n\t"                                            \
                            "addl $8, %k[count]\n\t" SA_PERCPU_INJECT                              \
                            "movl %k[count], (%[head])\n\t" SA_PERCPU_END("%l[" #again "]")        \
            : [cpu] "=&r"(cpu_), [head] "+&r"(head_), [top] "=&r"(top_), [count] "=&r"(count_)     \
            : [hot] "r"(hot_), [off] "r"(SA_PERCPU_AREA_OFFSET(hot_)), [ptr] "r"(obj),             \
              SA_PERCPU_CONSTANTS                                                                  \
            : "memory", "cc" SA_PERCPU_INJECT_CLOBBER                                              \
            : full, twice, again);                                                                 \
    } while (0)

/* In the functions below, cls is a header offset. */

/* Pushes as many of objs[0..n) as fit and returns how many; n > 0. */
SA_INLINE size_t sa_percpu_push_batch_at(void *hot, size_t cls, void *const *objs,
                                         size_t n)
{
    uint64_t slab, head, count, k, i, t;
    uint32_t left = SA_PERCPU_RESTARTS;

    __asm__ volatile(SA_PERCPU_ENTER
                     "movl (%[head]), %k[count]\n\t"
                     "movq %c[slots](%[head]), %[cpu]\n\t"
                     "movzwl %w[count], %k[t]\n\t"
                     "addq %[t], %[cpu]\n\t"
                     "movzwl %c[cap](%[head]), %k[k]\n\t"
                     "subq %[t], %[k]\n\t"
                     "jbe 6f\n\t" /* filled >= cap */
                     "shrq $3, %[k]\n\t"
                     "cmpq %[n], %[k]\n\t"
                     "cmovaq %[n], %[k]\n\t"
                     SA_PERCPU_COPY("%[objs]", "%[cpu]")
                     "leal (%k[count],%k[k],8), %k[count]\n\t" SA_PERCPU_INJECT
                     "movl %k[count], (%[head])\n\t" SA_PERCPU_LEAVE("jmp 6f") "jmp 7f\n\t"
                     "6: xorl %k[k], %k[k]\n\t"
                     "7:"
                     : [cpu] "=&r"(slab), [head] "=&r"(head), [count] "=&r"(count), [k] "=&r"(k),
                       [i] "=&r"(i), [t] "=&r"(t), [left] "+&r"(left)
                     : SA_PERCPU_INPUTS(hot, cls), [objs] "r"(objs), [n] "r"(n)
                     : "memory", "cc" SA_PERCPU_COPY_CLOBBER SA_PERCPU_INJECT_CLOBBER);
    return k;
}

/* Pops up to n objects, topmost last, and returns how many; n > 0. Does not count down. */
SA_INLINE size_t sa_percpu_pop_batch_at(void *hot, size_t cls, void **out, size_t n)
{
    uint64_t slab, head, count, k, i, t;
    uint32_t left = SA_PERCPU_RESTARTS;

    __asm__ volatile(SA_PERCPU_ENTER
                     "movl (%[head]), %k[count]\n\t"
                     "movq %c[slots](%[head]), %[cpu]\n\t"
                     "movzwl %w[count], %k[k]\n\t"
                     "addq %[k], %[cpu]\n\t"
                     "shrl $3, %k[k]\n\t"
                     "jz 7f\n\t" /* k is 0 */
                     "cmpq %[n], %[k]\n\t"
                     "cmovaq %[n], %[k]\n\t"
                     "leaq 0(,%[k],8), %[t]\n\t"
                     "subq %[t], %[cpu]\n\t"
                     "subl %k[t], %k[count]\n\t"
                     SA_PERCPU_COPY("%[cpu]", "%[out]") SA_PERCPU_INJECT
                     "movl %k[count], (%[head])\n\t"
                     SA_PERCPU_LEAVE("xorl %k[k], %k[k]\n\tjmp 7f") "7:"
                     : [cpu] "=&r"(slab), [head] "=&r"(head), [count] "=&r"(count), [k] "=&r"(k),
                       [i] "=&r"(i), [t] "=&r"(t), [left] "+&r"(left)
                     : SA_PERCPU_INPUTS(hot, cls), [out] "r"(out), [n] "r"(n)
                     : "memory", "cc" SA_PERCPU_COPY_CLOBBER SA_PERCPU_INJECT_CLOBBER);
    return k;
}

/* Stores a word, if this CPU has the given number and the given slab, and the state equals expect.
 * Returns whether it did. */
SA_INLINE bool sa_percpu_store_at(void *hot, int32_t cpu, struct sa_slab *expect_slab,
                                  size_t cls, uint64_t expect, void *word, uint64_t value)
{
    uint64_t slab, head;
    uint32_t left = SA_PERCPU_RESTARTS;

    __asm__ volatile goto(SA_PERCPU_ENTER "cmpl %%fs:%c[cpu_id](%[off]), %[of_cpu]\n\t"
                                 "jne %l[changed]\n\t"
                                 "cmpq %[cpu], %[of_slab]\n\t"
                                 "jne %l[changed]\n\t"
                                 "cmpq (%[head]), %[expect]\n\t"
                                 "jne %l[changed]\n\t" SA_PERCPU_INJECT
                                 "movq %[value], (%[word])\n\t" SA_PERCPU_LEAVE("jmp %l[changed]")
                 : [cpu] "=&r"(slab), [head] "=&r"(head), [left] "+&r"(left)
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
