/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules for leaving a frame, in one word each, made of the call frame information in .eh_frame
 * (DWARF 5, section 6.4, with the additions of the Linux Standard Base). Pure: reads the object's
 * constant data only.
 *
 * A rule says how to find the canonical frame address (CFA), below which the return address lies,
 * and the caller's rbp. Other registers are not followed, so what depends on them has no rule of
 * this kind. x86-64 only.
 */
#ifndef SA_SAMPLING_STACK_UNWIND_CFI_H
#define SA_SAMPLING_STACK_UNWIND_CFI_H

#include "sampling/stack/unwind_object.h"

#include <stdbool.h>
#include <stdint.h>

/* Bits of a rule; 0 is no rule. */
enum {
    SA_RULE_FRAME = 1,  /* an ordinary frame */
    SA_RULE_SIGNAL = 2, /* the frame that returns from a signal handler */
    SA_RULE_END = 3,    /* nobody called this */
    SA_RULE_NONE = 4,   /* no description: the end, too */
    SA_RULE_OTHER = 5,  /* needs more than a rule can say */
    SA_RULE_KIND = 7,

    /* SA_RULE_FRAME: the CFA is rsp, rbp or r10 plus bits 32..63, or is stored there. r10 holds it
     * while a function that aligns its stack begins or ends, and is known only of code that a
     * signal interrupted. */
    SA_RULE_CFA_RBP = 1 << 3,
    SA_RULE_CFA_STORED = 1 << 4,
    SA_RULE_CFA_R10 = 1 << 7,
    /* The caller's rbp is the same, or is stored at the CFA, or rbp, plus bits 16..31. */
    SA_RULE_RBP_AT_CFA = 1 << 5,
    SA_RULE_RBP_AT_RBP = 1 << 6,
    /* SA_RULE_SIGNAL: stored at rsp plus: bits 16..31 rbp, 32..47 the stack pointer, 48..63 the
       address. */
};

/* Offsets in the kernel's ucontext_t, which lies at the stack pointer of the frame that returns
 * from a handler. */
enum {
    SA_UCONTEXT_R10 = 40 + 8 * 2,
    SA_UCONTEXT_RBP = 40 + 8 * 10,
    SA_UCONTEXT_RSP = 40 + 8 * 15,
    SA_UCONTEXT_RIP = 40 + 8 * 16
};

uint64_t sa_unwind_rule(const struct sa_unwind_object *object, uintptr_t address);

#endif
