/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stacks whose frames are known without an unwinder: every function notes its own return address
 * when it is entered (ENTER), and stack_frames_expect compares. Shared by the tests of capture.
 */
#ifndef TEST_SUPPORT_STACK_FRAMES_H
#define TEST_SUPPORT_STACK_FRAMES_H

#include "alloc/base/attrs.h"
#include "sampling/stack/stack.h"

#include <stdbool.h>
#include <stdint.h>

#if SA_ASAN || SA_TSAN
#define SANITIZED 1
#endif

#ifdef __clang__
#define NOINLINE __attribute__((noinline))
#else
#define NOINLINE __attribute__((noinline, noclone))
#endif
#define BARRIER __asm__ volatile("" ::: "memory") /* no call before it is a tail call */
#define MOST    256

struct stack {
    unsigned n;
    uintptr_t pc[MOST];
};

extern struct stack expected; /* noted by functions as they are entered, outermost first */
extern struct stack captured;

#define ENTER (expected.pc[expected.n++] = (uintptr_t)__builtin_return_address(0))

/* Forgets both; the setup of a test. */
int stack_frames_start(void **state);

/* Captures the callers of the function whose CFA is frame, `depth` functions further in. */
void stack_frames_inner(const void *frame, unsigned depth, struct stack *ret, unsigned max);

/* Stands for malloc: notes itself, and fills in `captured`. */
void capture(void);

/* Notes itself; frames of every kind that compilers make, `depth` of them, and capture() in the
 * innermost. */
void stack_frames_next(unsigned depth);

/* The stack captured begins with what was noted, innermost first. */
void stack_frames_expect(void);

bool stack_frames_contain(const struct stack *s, uintptr_t pc);

#endif
