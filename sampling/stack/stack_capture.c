/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Capture of a call stack; see stack.h, and unwind.h for the ways. Where our own cannot leave a
 * frame, libgcc walks the whole stack.
 *
 * libgcc's unwinder is linked into the shared library (-static-libgcc), where nobody else can reach
 * it: no program registers frames with that copy, so that it takes no lock and allocates nothing,
 * and finds objects with _dl_find_object (glibc 2.35), which takes no lock either. Exceptions of
 * the program use its own libgcc. A static program at a fixed address (which has no _DYNAMIC)
 * shares libgcc with us and registers its frames, so that looking for one takes a lock, and
 * allocates with it held: there, what we cannot walk is left out.
 */
#include "sampling/stack/stack.h"

#include "alloc/base/atomic.h"
#include "alloc/base/attrs.h"
#include "sampling/stack/unwind.h"

#include <unwind.h>

struct walk {
    uintptr_t frame;
    uintptr_t *pc;
    unsigned n, most;
    bool found; /* frame was reached: the rest is the program's, also on another stack */
};

SA_RARE static _Unwind_Reason_Code walk_frame(struct _Unwind_Context *context, void *arg)
{
    struct walk *w = arg;
    int exact = 0; /* not a return address, but where a signal came */
    uintptr_t pc = _Unwind_GetIPInfo(context, &exact);

    w->found = w->found || _Unwind_GetCFA(context) >= w->frame;
    if (!w->found)
        return _URC_NO_REASON;
    if (!pc)
        return _URC_END_OF_STACK;
    w->pc[w->n++] = pc + (exact != 0);
    return w->n == w->most ? _URC_END_OF_STACK : _URC_NO_REASON;
}

/*
 * libgcc sets up a table under pthread_once when it is called first. A signal that comes in the
 * middle of that, and captures, would wait for itself: whoever finds it begun and not finished goes
 * without.
 */
static bool libgcc_ready(void)
{
    static uint32_t state; /* atomic: 0 at first, 1 while one thread calls, 2 ready */
    uint32_t none = 0;
    struct walk w = {.frame = UINTPTR_MAX};

    if (SA_LIKELY(sa_load_acquire(&state) == 2))
        return true;
    if (!sa_cas_acquire(&state, &none, 1))
        return false;
    _Unwind_Backtrace(walk_frame, &w);
    sa_store_release(&state, 2);
    return true;
}

SA_RARE unsigned sa_unwind_libgcc(const void *frame, uintptr_t *pc, unsigned most)
{
    struct walk w = {.frame = (uintptr_t)frame, .pc = pc, .most = most};

    if (most && libgcc_ready())
        _Unwind_Backtrace(walk_frame, &w);
    return w.n;
}

#ifdef SA_UNWIND_FAST
extern const char _DYNAMIC[] SA_WEAK SA_HIDDEN;
#endif

static SA_START_DATA bool waiting;

void sa_stack_capture_wait(bool wait)
{
    waiting = wait;
}

unsigned sa_stack_capture(const void *frame, uintptr_t *pc, unsigned most)
{
#ifdef SA_UNWIND_FAST
    unsigned n;
#endif

    if (SA_UNLIKELY(waiting))
        return 0;
#ifdef SA_UNWIND_FAST
    if (SA_LIKELY(sa_unwind_fast(frame, pc, most, &n)) || !_DYNAMIC)
        return n;
#endif
    return sa_unwind_libgcc(frame, pc, most);
}
