/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Translates call frame information (.eh_frame: DWARF 5, section 6.4, with the additions of the
 * Linux Standard Base) into rules for leaving a frame. A rule is one word. The functions are pure
 * and read only constant data of the object. x86-64 only.
 *
 * A rule says how to find the canonical frame address (CFA) and the caller's rbp. The return
 * address lies below the CFA. Other registers are not followed, so a frame that depends on them has
 * the rule SA_RULE_OTHER.
 */
#ifndef SA_SAMPLING_STACK_UNWIND_CFI_H
#define SA_SAMPLING_STACK_UNWIND_CFI_H

#include "sampling/stack/unwind_object.h"

#include <stdbool.h>
#include <stdint.h>

/* Bits of a rule. 0 is not a rule. */
enum {
    SA_RULE_FRAME = 1,  /* an ordinary frame */
    SA_RULE_SIGNAL = 2, /* the frame that returns from a signal handler */
    SA_RULE_END = 3,    /* the outermost frame: the description has no return address */
    SA_RULE_NONE = 4,   /* nothing describes the address: the walk ends, too */
    SA_RULE_OTHER = 5,  /* one word cannot say how to leave the frame: libgcc has to */
    SA_RULE_KIND = 7,   /* mask of the above */

    /*
     * SA_RULE_FRAME: the CFA is a base plus bits 32..63, or is stored at that address. The base is
     * rsp, or rbp or r10 if the bit says so. r10 holds the CFA in the first and last instructions
     * of a function that aligns its stack. Its value is known only for code that a signal
     * interrupted.
     */
    SA_RULE_CFA_RBP = 1 << 3,
    SA_RULE_CFA_STORED = 1 << 4,
    SA_RULE_CFA_R10 = 1 << 7,
    /* The caller's rbp is stored at the CFA, or at rbp, plus bits 16..31. Neither bit: rbp is
     * unchanged. */
    SA_RULE_RBP_AT_CFA = 1 << 5,
    SA_RULE_RBP_AT_RBP = 1 << 6,
    /* SA_RULE_SIGNAL: the interrupted registers are stored at rsp plus bits 16..31 (rbp), 32..47
     * (rsp), 48..63 (the code address). */
};

/* Byte offsets of registers in the kernel's ucontext_t. It lies at the stack pointer of the frame
 * that returns from a signal handler. */
enum {
    SA_UCONTEXT_R10 = 40 + 8 * 2,
    SA_UCONTEXT_RBP = 40 + 8 * 10,
    SA_UCONTEXT_RSP = 40 + 8 * 15,
    SA_UCONTEXT_RIP = 40 + 8 * 16
};

/* Returns the rule for leaving a frame whose code is at the address in the object. Never 0. */
uint64_t sa_unwind_rule(const struct sa_unwind_object *object, uintptr_t address);

#endif
