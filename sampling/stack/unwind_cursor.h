/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a walk of the fast unwinder is, and how far it may read: the bounds of its stack. A part of
 * unwind_fast.c, which describes them.
 */
#ifndef SA_SAMPLING_STACK_UNWIND_CURSOR_H
#define SA_SAMPLING_STACK_UNWIND_CURSOR_H

#include "alloc/base/attrs.h"
#include "alloc/os/sys.h"
#include "alloc/os/thread.h"
#include "sampling/stack/unwind.h"

#include <stdbool.h>
#include <stdint.h>

#ifdef SA_UNWIND_FAST

#define RED_ZONE 128 /* bytes below rsp that code may use (System V ABI) */
#define PAGE     ((uintptr_t)4096)
#define NEAR_TOP                                                                                   \
    ((uintptr_t)65536) /* bytes: the outermost frame of a thread is this near the top */

extern void *__libc_stack_end SA_WEAK;

/* A frame of the walk. */
struct cursor {
    uintptr_t pc, sp, bp;
    uintptr_t r10;      /* known only if exact */
    uintptr_t top;      /* the stack ends here, or below */
    uintptr_t start;    /* sp at the beginning, or after the last change of stacks */
    uintptr_t readable; /* [start, readable) can be read */
    bool exact;         /* pc is where a signal came, not a return address */
    bool dismantled;    /* the walk has passed a frame whose rule no longer held (leave_frame) */
};

/* Reads a word of the stack. Sanitizers know variables only, so they must not look here. */
__attribute__((no_sanitize("address", "thread"))) static inline uintptr_t read_stack(uintptr_t at)
{
    return *(const uintptr_t *)at;
}

/*
 * Returns an upper bound of the stack that contains sp. A thread has its control block above its
 * stack. The first thread's stack ends where the kernel has put it. For a stack from elsewhere
 * (coroutines, signal handlers) the bound is not tight.
 */
static uintptr_t stack_top(uintptr_t sp)
{
    uintptr_t thread, top = UINTPTR_MAX;

    __asm__("mov %%fs:0, %0" : "=r"(thread));
    if (&__libc_stack_end && sp < (uintptr_t)__libc_stack_end)
        top = (uintptr_t)__libc_stack_end;
    return sp < thread && thread < top ? thread : top;
}

/* Values of sa_thread.stack_first: whether this is the first thread of the process. */
enum { THREAD_UNKNOWN, THREAD_FIRST, THREAD_OTHER };

/*
 * Returns whether a top is that of the thread's own stack. False: also if that is not known yet.
 * The first thread's control block is not above its stack, and may lie right above that of a
 * coroutine.
 */
static bool is_own(uintptr_t top)
{
    bool first = &__libc_stack_end && top == (uintptr_t)__libc_stack_end;

    return sa_thread.stack_first == (first ? THREAD_FIRST : THREAD_OTHER);
}

/* Returns the pages from that of `low` to the top. All addresses of a page have the same number. */
static uintptr_t pages_between(uintptr_t low, uintptr_t top)
{
    return top / PAGE - low / PAGE;
}

/* Finds the bounds of the stack that sp points into. readable: as far as the caller knows. */
static void enter_stack(struct cursor *c, uintptr_t readable)
{
    c->top = stack_top(c->sp);
    c->start = c->sp;
    c->readable = readable;
    if (is_own(c->top) && pages_between(c->sp, c->top) <= sa_thread.stack_pages)
        c->readable = c->top;
}

/* Returns whether the word at an address beyond c->readable can be read. If that is more than
 * NEAR_TOP away, the pages between are not checked. */
SA_NOINLINE static bool read_further(struct cursor *c, uintptr_t at)
{
    if (at - c->readable > NEAR_TOP)
        c->readable = at & -PAGE;
    for (; c->readable <= at; c->readable += PAGE)
        if (!sa_sys_is_readable((const void *)c->readable))
            return false;
    return true;
}

/* Remembers how deep the stack is on which the walk came to its end, if it is the thread's own.
 * That stack exists for as long as the thread does. */
static void remember_stack(const struct cursor *c)
{
    uintptr_t pages = pages_between(c->start, c->top);

    if (SA_LIKELY(pages <= sa_thread.stack_pages) || c->sp > c->top || c->top - c->sp > NEAR_TOP)
        return;
    if (sa_thread.stack_first == THREAD_UNKNOWN)
        sa_thread.stack_first = sa_sys_is_first_thread() ? THREAD_FIRST : THREAD_OTHER;
    if (is_own(c->top))
        sa_thread.stack_pages = (uint16_t)(pages < UINT16_MAX ? pages : UINT16_MAX);
}

/* Returns whether a word at the address is aligned, inside the frame that ends at `end`, and can be
 * read. end = c->top: anywhere above in the stack. */
SA_INLINE bool in_frame(struct cursor *c, uintptr_t at, uintptr_t end)
{
    return at % 8 == 0 && at >= c->sp - RED_ZONE && at <= end - 8 && end <= c->top &&
           (SA_LIKELY(at < c->readable) || read_further(c, at));
}

#endif

#endif
