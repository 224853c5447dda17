/* SPDX-License-Identifier: Apache-2.0 */
/* Stacks whose frames are known; see stack_frames.h. */
#include "test/support/stack_frames.h"

#include "test/support/cmocka.h"

#include <string.h>

struct stack expected, captured;

/* Stands for the inside of an allocator: frames between the entry point and the capture. */
NOINLINE void stack_frames_inner(const void *frame, unsigned depth, struct stack *ret, unsigned max)
{
    if (depth)
        stack_frames_inner(frame, depth - 1, ret, max);
    else
        ret->n = sa_stack_capture(frame, ret->pc, max);
    BARRIER;
}

/* Stands for malloc. */
NOINLINE void capture(void)
{
    ENTER;
    stack_frames_inner(__builtin_dwarf_cfa(), 3, &captured, SA_STACK_MAX);
    BARRIER;
}

/* The stack begins with what was noted, innermost first. */
void stack_frames_expect(void)
{
    assert_true(captured.n >= expected.n || captured.n == SA_STACK_MAX);
    for (unsigned i = 0; i < expected.n && i < SA_STACK_MAX; i++)
        assert_int_equal(captured.pc[i], expected.pc[expected.n - 1 - i]);
}

bool stack_frames_contain(const struct stack *s, uintptr_t pc)
{
    for (unsigned i = 0; i < s->n; i++)
        if (s->pc[i] == pc)
            return true;
    return false;
}

int stack_frames_start(void **state)
{
    (void)state;
    memset(&expected, 0, sizeof(expected));
    memset(&captured, 0, sizeof(captured));
    return 0;
}

/* --- frames of all kinds --- */

typedef void step_fn(unsigned depth);

static step_fn *const kinds[];
static const unsigned kind_count;

static inline __attribute__((always_inline)) void next(unsigned depth)
{
    if (depth)
        kinds[depth % kind_count](depth - 1);
    else
        capture();
}

NOINLINE static void step_plain(unsigned depth)
{
    ENTER;
    next(depth);
    BARRIER;
}

#ifndef __clang__
__attribute__((optimize("no-omit-frame-pointer")))
#endif
NOINLINE static void
step_frame_pointer(unsigned depth)
{
    ENTER;
    next(depth);
    BARRIER;
}

#ifndef __clang__
__attribute__((optimize("omit-frame-pointer")))
#endif
NOINLINE static void
step_no_frame_pointer(unsigned depth)
{
    volatile char large[5000];

    ENTER;
    large[0] = large[4999] = (char)depth;
    next(depth);
    BARRIER;
}

NOINLINE static void step_variable(unsigned depth)
{
    char *p = __builtin_alloca(17 * depth + 1);

    ENTER;
    p[0] = 1;
    __asm__ volatile("" ::"r"(p) : "memory");
    next(depth);
    BARRIER;
}

/* The frame is aligned, so that the return address is found by way of a saved pointer. */
NOINLINE static void step_aligned(unsigned depth)
{
    __attribute__((aligned(128))) char aligned[128];

    ENTER;
    aligned[depth % 128] = 1;
    __asm__ volatile("" ::"r"(aligned) : "memory");
    next(depth);
    BARRIER;
}

NOINLINE static void step_aligned_variable(unsigned depth)
{
    __attribute__((aligned(64))) char aligned[64];
    char *p = __builtin_alloca(17 * depth + 1);

    ENTER;
    aligned[depth % 64] = 1;
    __asm__ volatile("" ::"r"(p), "r"(aligned) : "memory");
    next(depth);
    BARRIER;
}

NOINLINE static void step_registers(unsigned depth) /* all callee-saved registers are in use */
{
    unsigned long a = depth, b = a * 3, c = b * 5, d = c * 7, e = d * 11, f = e * 13;

    ENTER;
    __asm__ volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e), "+r"(f));
    next(depth);
    __asm__ volatile("" ::"r"(a), "r"(b), "r"(c), "r"(d), "r"(e), "r"(f) : "memory");
}

static step_fn *const kinds[] = {step_plain,    step_frame_pointer, step_no_frame_pointer,
                                 step_variable, step_aligned,       step_aligned_variable,
                                 step_registers};
static const unsigned kind_count = TEST_COUNT(kinds);

NOINLINE void stack_frames_next(unsigned depth)
{
    ENTER;
    next(depth);
    BARRIER;
}
