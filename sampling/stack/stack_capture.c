/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Captures a call stack (stack.h) with the fast unwinder. Where it meets a frame that it cannot
 * leave, libgcc's unwinder walks the whole stack again (unwind.h).
 *
 * The shared library has its own copy of libgcc's unwinder (-static-libgcc), which the program
 * cannot reach. No program registers frames with that copy, so it takes no lock and allocates
 * nothing. It finds objects with _dl_find_object (glibc 2.35), which takes no lock either.
 * Exceptions of the program use the program's libgcc.
 *
 * A static program at a fixed address shares libgcc with salloc, and registers its frames. There a
 * search for a frame takes a lock, and allocates with it held. Such a program has no _DYNAMIC, and
 * its stacks end where the fast unwinder ends.
 *
 * libgcc's unwinder takes 2 to 4 KB of stack, which small stacks do not have. It runs on a block of
 * scratch memory. A signal handler must not run there: the block is short, and collectors that stop
 * threads by signals scan from the stack pointer to the end of the thread's stack. So signals are
 * blocked meanwhile, but for those of faults. Behind a filter of system calls they are not, because
 * the filter may end the process.
 */
#include "sampling/stack/stack.h"

#include "alloc/base/atomic.h"
#include "alloc/base/attrs.h"
#include "alloc/base/fatal.h"
#include "alloc/os/filter.h"
#include "alloc/os/scratch.h"
#include "alloc/os/stack_switch.h"
#include "alloc/os/sys.h"
#include "alloc/os/thread.h"
#include "sampling/stack/unwind.h"
#include "sampling/stack/unwind_generated.h"

#include <string.h>
#include <unwind.h>

/* The arguments of sa_unwind_libgcc, and how far the walk is. */
struct walk {
    uintptr_t frame;
    uintptr_t *pc;
    unsigned n, max;
    bool found;    /* the walk has passed `frame`: all further frames are the program's */
    uintptr_t own; /* the block of scratch memory on which libgcc runs */
};

/* Takes one frame. libgcc calls it for each, the innermost first. */
SA_RARE static _Unwind_Reason_Code walk_frame(struct _Unwind_Context *context, void *arg)
{
    struct walk *w = arg;
    int exact = 0; /* 1: a signal interrupted the code at pc; 0: pc is a return address */
    uintptr_t pc = _Unwind_GetIPInfo(context, &exact);

    uintptr_t cfa = _Unwind_GetCFA(context);

    w->found = w->found || (cfa >= w->frame && cfa - w->own > SA_SCRATCH_BYTES);
    if (!w->found)
        return _URC_NO_REASON;
    if (!pc)
        return _URC_END_OF_STACK;
    w->pc[w->n++] = pc + (exact != 0);
    return w->n == w->max ? _URC_END_OF_STACK : _URC_NO_REASON;
}

/* Ends the first call at its first frame. */
SA_RARE static _Unwind_Reason_Code walk_first(struct _Unwind_Context *context, void *arg)
{
    (void)context;
    (void)arg;
    return _URC_END_OF_STACK;
}

/*
 * Returns whether libgcc's unwinder may be called. Its first call sets up a table under
 * pthread_once. A signal handler that interrupts the first call, and captures, would wait for
 * itself. A capture that finds the first call begun but not finished therefore does without libgcc.
 */
SA_RARE static bool libgcc_ready(void)
{
    static uint32_t state; /* atomic: 0 at first, 1 during the first call, 2 from then on */
    uint32_t none = 0;

    if (SA_LIKELY(sa_load_acquire(&state) == 2))
        return true;
    if (!sa_cas_acquire(&state, &none, 1))
        return false;
    _Unwind_Backtrace(walk_first, NULL);
    sa_store_release(&state, 2);
    return true;
}

SA_RARE static void walk_libgcc(void *arg)
{
    struct walk *w = arg;

    if (w->max && libgcc_ready())
        _Unwind_Backtrace(walk_frame, w);
}

SA_RARE unsigned sa_unwind_libgcc(const void *frame, uintptr_t *pc, unsigned max)
{
    struct walk w = {.frame = (uintptr_t)frame, .pc = pc, .max = max, .own = UINTPTR_MAX};

    walk_libgcc(&w);
    return w.n;
}

/* As sa_unwind_libgcc, on scratch memory. Returns 0 if there is none. */
SA_RARE SA_NOINLINE static unsigned unwind_apart(const void *frame, uintptr_t *pc, unsigned max)
{
    char *block = sa_scratch_take();
    struct walk w = {(uintptr_t)frame, pc, 0, max, false, (uintptr_t)block};
    bool blocks = !sa_filtered();
    uint64_t mask = 0;
    void *sp;

    if (!block)
        return 0;
    if (blocks)
        mask = sa_sys_block_signals();
    sa_stack_switch(block + (SA_SCRATCH_BYTES & -16), walk_libgcc, &w, &sp);
    if (blocks)
        sa_sys_set_mask(mask);
    sa_scratch_give(block);
    return w.n;
}

#ifdef SA_UNWIND_FAST
extern const char _DYNAMIC[] SA_WEAK SA_HIDDEN;
#endif

/* See sa_stack_capture_wait. Written while there is one thread. */
static SA_START_DATA bool waiting;

void sa_stack_capture_wait(bool wait)
{
    waiting = wait;
}

/* libgcc: the walk by libgcc. */
static unsigned capture(const void *frame, bool rbp_saved, uintptr_t *pc, unsigned max,
                        unsigned (*libgcc)(const void *frame, uintptr_t *pc, unsigned max))
{
#ifdef SA_UNWIND_FAST
    unsigned n;
#endif

    if (SA_UNLIKELY(waiting))
        return 0;
#ifdef SA_UNWIND_FAST
    if (SA_LIKELY(sa_unwind_fast(frame, rbp_saved, pc, max, &n)) || !_DYNAMIC)
        return n;
#else
    (void)rbp_saved;
#endif
    return libgcc(frame, pc, max);
}

SA_RARE unsigned sa_stack_capture(const void *frame, uintptr_t *pc, unsigned max)
{
    return capture(frame, false, pc, max, sa_unwind_libgcc);
}

#ifdef SA_DEBUG
/* Returns how many addresses of a stack do not depend on what could be read: up to the first one in
 * generated code. */
static unsigned sure_part(const uintptr_t *pc, unsigned n)
{
#ifdef SA_UNWIND_FAST
    for (unsigned i = 0; i < n; i++)
        if (sa_unwind_is_generated(pc[i]))
            return i + 1;
#else
    (void)pc;
#endif
    return n;
}

/* Whether a walk through the frames of the allocator gives the same stack. */
static bool is_same(const uintptr_t *pc, unsigned n, unsigned max)
{
    uintptr_t other[SA_STACK_MAX];
    unsigned sure = sure_part(pc, n);

    return sure_part(other, capture(sa_thread.caller, false, other, max, unwind_apart)) == sure &&
           memcmp(pc, other, sure * sizeof(*pc)) == 0;
}
#endif

unsigned sa_stack_capture_caller(uintptr_t *pc, unsigned max)
{
    bool rbp_saved = sa_thread.caller_kind & SA_CALLER_RBP_SAVED;
    unsigned n = capture(sa_thread.caller, rbp_saved, pc, max, unwind_apart);

#ifdef SA_DEBUG
    SA_CHECK(!rbp_saved || is_same(pc, n, max));
#endif
    return n;
}
