/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fast unwinder: walks a stack by the rules of unwind_cfi.h. The rules are cached by address
 * (unwind_cache.h), and those of stacks that come again also by stack (unwind_trace_cache.h).
 *
 * The walk goes upwards, and reads only between the stack pointer and the top of the stack. A
 * broken chain of frames thus ends the walk. (libgcc follows it.)
 *
 * The top is not known on some stacks, such as those of coroutines, whose last return address may
 * be anything. There the walk asks the kernel whether a page can be read, before it reads the page.
 * To make that rare, each thread remembers how deep its own stack was at the end of a walk.
 */
#include "sampling/stack/unwind.h"

#ifdef SA_UNWIND_FAST

#include "alloc/base/atomic.h"
#include "alloc/base/attrs.h"
#include "alloc/base/fatal.h"
#include "alloc/base/single_threaded.h"
#include "alloc/os/filter.h"
#include "alloc/os/scratch.h"
#include "alloc/os/sys.h"
#include "alloc/os/thread.h"
#include "sampling/stack/stack_bounds.h"
#include "sampling/stack/unwind_cache.h"
#include "sampling/stack/unwind_cfi.h"
#include "sampling/stack/unwind_generated.h"
#include "sampling/stack/unwind_object.h"
#include "sampling/stack/unwind_trace_cache.h"

#include <stddef.h>

#define OBJECTS   4                    /* objects that a walk remembers */
#define INNER_MAX 64                   /* most frames of the allocator itself */
#define FRAME_MAX ((uintptr_t)1 << 30) /* bytes. A longer frame means that the chain is broken */
#define RED_ZONE  128                  /* bytes below rsp that code may use (System V ABI) */
#define PAGE      ((uintptr_t)4096)
/* Bytes to the top of a thread's stack, from its outermost frame: at most NEAR_TOP. From another
 * stack: at least NEAR_SELF, as libc makes none below PTHREAD_STACK_MIN. */
#define NEAR_TOP  ((uintptr_t)65536)
#define NEAR_SELF ((uintptr_t)12288)

/* A frame of the walk. */
struct cursor {
    union {
        struct sa_unwind_registers at;
        struct {
            uintptr_t pc, sp, bp;
        };
    };
    uintptr_t r10;      /* known only if exact */
    uintptr_t top;      /* the stack ends here, or below */
    uintptr_t start;    /* sp at the beginning, or after the last change of stacks */
    uintptr_t readable; /* [start, readable) can be read */
    bool exact;         /* pc is where a signal came, not a return address */
    bool dismantled;    /* the walk has passed a frame whose rule no longer held (leave_frame) */
};

/* The objects that a walk has found. */
struct objects {
    struct sa_unwind_object object[OBJECTS];
    unsigned count; /* found so far; the newest OBJECTS are kept */
    unsigned last;  /* index of the one used last */
};

/* Reads a word of the stack. Sanitizers know variables only, so they must not look here. */
__attribute__((no_sanitize("address", "thread"))) static inline uintptr_t read_stack(uintptr_t at)
{
    return *(const uintptr_t *)at;
}

/*
 * Returns whether a top is that of the thread's own stack. False: also if that is not known yet.
 * The first thread's control block is not above its stack, and may lie right above that of a
 * coroutine.
 */
static bool is_own(uintptr_t top)
{
    bool first = &__libc_stack_end && top == (uintptr_t)__libc_stack_end;

    return sa_thread.stack_first == (first ? SA_THREAD_FIRST : SA_THREAD_OTHER);
}

/* Returns the pages from that of `low` to the top. All addresses of a page have the same number. */
static uintptr_t pages_between(uintptr_t low, uintptr_t top)
{
    return top / PAGE - low / PAGE;
}

/* Finds the bounds of the stack that sp points into. readable: as far as the caller knows. */
static void enter_stack(struct cursor *c, uintptr_t readable)
{
    c->top = sa_stack_top(c->sp);
    c->start = c->sp;
    c->readable = readable;
    if (is_own(c->top) && pages_between(c->sp, c->top) <= sa_thread.stack_pages)
        c->readable = c->top;
}

/*
 * Returns whether the word at an address beyond c->readable can be read. If that is more than
 * NEAR_TOP away, the pages between are not checked. The kernel is not asked where a filter may
 * forbid the call: that of a program of one thread, which takes no locks.
 */
SA_NOINLINE static bool read_further(struct cursor *c, uintptr_t at)
{
    if (sa_filtered() && sa_single_threaded())
        return sa_stack_first_has(c->start, at);
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
    uintptr_t pages = pages_between(c->start, c->top), left = c->top - c->sp;

    if (SA_LIKELY(pages <= sa_thread.stack_pages) || c->sp > c->top || left > NEAR_TOP)
        return;
    if (sa_thread.stack_first == SA_THREAD_UNKNOWN)
        sa_thread.stack_first = sa_sys_is_first_thread() ? SA_THREAD_FIRST : SA_THREAD_OTHER;
    if (is_own(c->top) && (left <= NEAR_SELF || sa_thread.stack_first == SA_THREAD_FIRST))
        sa_thread.stack_pages = (uint16_t)(pages < UINT16_MAX ? pages : UINT16_MAX);
}

static bool is_in(const struct sa_unwind_object *o, uintptr_t address)
{
    return address - o->start < o->end - o->start;
}

/* Makes the object of the address the last one. False: no object has it. */
SA_NOINLINE static bool find_object(struct objects *objects, uintptr_t address)
{
    struct sa_unwind_object *o;

    for (unsigned i = 0; i < OBJECTS && i < objects->count; i++)
        if (is_in(&objects->object[i], address)) {
            objects->last = i;
            return true;
        }
    objects->last = objects->count % OBJECTS;
    o = &objects->object[objects->last];
    o->start = o->end = 0; /* contains no address, in case the search fails */
    if (!sa_unwind_object_find(address, o))
        return false;
    objects->count++;
    return true;
}

/* Returns the rule of the frame. For a return address it is that of the call before it. */
SA_INLINE uint64_t find_rule(const struct cursor *c, struct objects *objects)
{
    uintptr_t address = c->pc - !c->exact;

    if (SA_UNLIKELY(!is_in(&objects->object[objects->last], address)) &&
        !find_object(objects, address))
        return SA_RULE_NONE;
    return sa_unwind_rule_of(&objects->object[objects->last], address);
}

/* Returns whether a word at the address is aligned, inside the frame that ends at `end`, and can be
 * read. end = c->top: anywhere above in the stack. */
SA_INLINE bool in_frame(struct cursor *c, uintptr_t at, uintptr_t end)
{
    return at % 8 == 0 && at >= c->sp - RED_ZONE && at <= end - 8 && end <= c->top &&
           (SA_LIKELY(at < c->readable) || read_further(c, at));
}

/* Adds the frame to a trace, or ends the trace if the frame cannot be in one. Only the first step's
 * address may be exact. */
static void trace_add(struct sa_trace_recorded *recorded, const struct cursor *c, uint64_t rule,
                      const struct sa_unwind_object *o)
{
    unsigned kind = rule & SA_RULE_KIND;
    uint32_t i = 0;

    if ((kind != SA_RULE_FRAME && kind != SA_RULE_END) || !is_in(o, c->pc - !c->exact) ||
        !o->identity || c->exact != (recorded->exact && recorded->count == 0)) {
        recorded->going = false;
        return;
    }
    while (i < recorded->count && recorded->step[i].rule != SA_TRACE_CACHE_OBJECT(o->identity))
        i++;
    if (!o->permanent && i == recorded->count)
        sa_trace_cache_add(recorded, c->pc, SA_TRACE_CACHE_OBJECT(o->identity));
    sa_trace_cache_add(recorded, c->pc,
                       sa_trace_cache_is_plain(rule) ? rule | SA_TRACE_CACHE_PLAIN : rule);
}

/* Goes to the caller of an ordinary frame. False: the chain is broken. */
SA_INLINE bool leave_frame(struct cursor *c, uint64_t rule)
{
    uintptr_t base = rule & SA_RULE_CFA_RBP ? c->bp : rule & SA_RULE_CFA_R10 ? c->r10 : c->sp;
    uintptr_t cfa = base + (uintptr_t)((int64_t)rule >> 32), at;

    if (rule & SA_RULE_CFA_STORED) {
        if (!in_frame(c, cfa, c->top) || cfa - c->sp > FRAME_MAX)
            return false;
        cfa = read_stack(cfa);
    }
    /* As in_frame, for the return address. */
    if (cfa - c->sp - 1 >= FRAME_MAX || cfa % 8 || cfa > c->top ||
        (SA_UNLIKELY(cfa - 8 >= c->readable) && !read_further(c, cfa - 8)))
        return false;
    if (rule & SA_RULE_RBP_AT_CFA) {
        at = cfa + (uintptr_t)(int16_t)(rule >> 16);
        if (!in_frame(c, at, cfa))
            return false;
        c->bp = read_stack(at);
    } else if (rule & SA_RULE_RBP_AT_RBP) {
        /* Compilers keep this rule for the last instruction of a function. There rbp is the
         * caller's already, and does not point into the frame. */
        at = c->bp + (uintptr_t)(int16_t)(rule >> 16);
        if (in_frame(c, at, cfa))
            c->bp = read_stack(at);
        else
            c->dismantled = true;
    }
    c->pc = read_stack(cfa - 8);
    c->sp = cfa;
    c->r10 = 0; /* not known. At a call, no rule needs it */
    c->exact = false;
    return true;
}

/* Goes to the code that a signal interrupted. The kernel has stored its registers right above the
 * stack pointer. That code may be on another stack. False: the chain is broken. */
SA_RARE static bool leave_signal(struct cursor *c, uint64_t rule)
{
    uintptr_t bp = c->sp + (rule >> 16 & 0xffff), sp = c->sp + (rule >> 32 & 0xffff),
              pc = c->sp + (rule >> 48), r10 = c->sp + SA_UCONTEXT_R10;

    if (!in_frame(c, r10, c->top) || !in_frame(c, bp, c->top) || !in_frame(c, sp, c->top) ||
        !in_frame(c, pc, c->top))
        return false;
    c->bp = read_stack(bp);
    c->sp = read_stack(sp);
    c->pc = read_stack(pc);
    c->r10 = read_stack(r10);
    enter_stack(c, (c->sp - RED_ZONE) & -PAGE);
    c->exact = true;
    return true;
}

struct walk {
    struct cursor c;
    uintptr_t frame, *pc; /* arguments of sa_unwind_fast */
    unsigned max;
    unsigned inner; /* frames of the allocator itself */
    unsigned n;     /* addresses stored in pc[] */
    bool found;     /* `frame` was reached */
    bool whole;     /* false: only libgcc can go on */
    bool generated; /* it is at code that nothing describes */
};

/* Begins a walk: in sa_unwind_fast (exact), or right after the call that entered w->frame. */
SA_INLINE void walk_begin(struct walk *w, uintptr_t pc, uintptr_t sp, uintptr_t bp, bool exact)
{
    w->c = (struct cursor){.pc = pc, .sp = sp, .bp = bp, .exact = exact};
    enter_stack(&w->c, ((sp - 8) & -PAGE) + PAGE);
    w->inner = w->n = 0;
    w->found = !exact;
    w->whole = true;
    w->generated = false;
    if (w->found && w->max)
        w->pc[w->n++] = pc;
}

/* Leaves a frame by its rule, and stores the caller's address. False: the walk is at its end. */
SA_INLINE bool walk_step(struct walk *w, uint64_t rule)
{
    switch (rule & SA_RULE_KIND) {
    case SA_RULE_FRAME:
        if (!leave_frame(&w->c, rule))
            return false;
        break;
    case SA_RULE_SIGNAL:
        if (!leave_signal(&w->c, rule))
            return false;
        break;
    case SA_RULE_OTHER:
        /* libgcc reads where the description says. In a dismantled frame that may crash, so the
         * stack ends here. */
        w->whole = w->c.dismantled;
        return false;
    case SA_RULE_END:
        remember_stack(&w->c);
        return false;
    default:
        w->generated = true;
        return false;
    }
    w->found = w->found || w->c.sp >= w->frame;
    if (!w->c.pc || (!w->found && ++w->inner == INNER_MAX))
        return false;
    SA_DCHECK(w->n < w->max);
    if (w->found)
        w->pc[w->n++] = w->c.pc + w->c.exact;
    return w->n < w->max;
}

/*
 * As leave_frame, for usual frames: those whose CFA is an offset from rsp or rbp, below the limit.
 * False: the frame is another one, and *state has no meaning.
 */
SA_INLINE bool leave_usual_frame(struct sa_unwind_registers *state, uint64_t rule, uintptr_t limit)
{
    uintptr_t cfa = state->sp + (uintptr_t)((int64_t)rule >> 32), at;

    if (SA_LIKELY(rule & SA_TRACE_CACHE_PLAIN)) {
        if (cfa > limit)
            return false;
        if (rule & SA_RULE_RBP_AT_CFA)
            state->bp = read_stack(cfa + (uintptr_t)(int16_t)(rule >> 16));
        state->pc = read_stack(cfa - 8);
        state->sp = cfa;
        return true;
    }
    if (rule & SA_RULE_CFA_RBP)
        cfa += state->bp - state->sp;
    if ((rule & (SA_RULE_KIND | SA_RULE_CFA_STORED | SA_RULE_CFA_R10 | SA_RULE_RBP_AT_RBP)) !=
            SA_RULE_FRAME ||
        cfa - state->sp - 1 >= FRAME_MAX || cfa % 8 || cfa > limit)
        return false;
    if (rule & SA_RULE_RBP_AT_CFA) {
        at = cfa + (uintptr_t)(int16_t)(rule >> 16);
        if (at % 8 || at < state->sp - RED_ZONE || at > cfa - 8)
            return false;
        state->bp = read_stack(at);
    }
    state->pc = read_stack(cfa - 8);
    state->sp = cfa;
    return true;
}

/* Returns whether the object with the return address is the one that the step of a trace names. */
SA_NOINLINE static bool is_object(uintptr_t pc, uint64_t rule)
{
    struct sa_unwind_object o;

    return sa_unwind_object_find(pc - 1, &o) && SA_TRACE_CACHE_OBJECT(o.identity) == rule;
}

/*
 * Walks along a trace, as far as it is right and frames are usual. Stores in *ret_rule the rule
 * that the trace has for the next frame, or 0, and in *ret_followed whether the trace was right to
 * its end. False: the walk is at its end.
 */
SA_NOINLINE static bool walk_follow(struct walk *w, const struct sa_trace *trace,
                                    uint64_t *ret_rule, bool *ret_followed)
{
    struct sa_unwind_registers state = w->c.at, next;
    uintptr_t limit = w->c.top < w->c.readable ? w->c.top : w->c.readable, frame = w->frame;
    uintptr_t *pc = w->pc + w->n, *pc_end = w->pc + w->max;
    const struct sa_trace_cache_step *step = trace->step;
    const struct sa_trace_cache_step *end = step + sa_load_relaxed(&trace->count);
    uint64_t rule = 0;

    SA_DCHECK(end - step <= SA_TRACE_CACHE_STEPS);
    *ret_followed = step != end;
    for (; step != end; step++) {
        if (sa_load_relaxed(&step->pc) != state.pc) {
            *ret_followed = false;
            break;
        }
        rule = sa_load_relaxed(&step->rule);
        if (SA_UNLIKELY((rule & SA_RULE_KIND) == SA_RULE_KIND)) {
            *ret_followed = is_object(state.pc, rule);
            rule = 0;
            if (*ret_followed)
                continue;
            break;
        }
        next = state;
        if (!leave_usual_frame(&next, rule, limit))
            break;
        rule = 0;
        state = next;
        if (state.sp < frame)
            continue;
        if (state.pc)
            *pc++ = state.pc;
        if (!state.pc || pc == pc_end)
            break;
    }
    if (state.sp != w->c.sp) {
        w->c.at = state;
        w->c.exact = false;
        w->inner = (unsigned)(step - trace->step);
        w->found = state.sp >= frame;
    }
    w->n = (unsigned)(pc - w->pc);
    *ret_rule = rule;
    return state.pc && pc != pc_end;
}

/* Walks to the end by looking up each rule. rule: that of the first frame, or 0. recorded: the
 * trace that the steps are added to, or NULL. */
SA_INLINE void walk_on(struct walk *w, uint64_t rule, struct sa_trace_recorded *recorded)
{
    struct objects objects;

    objects.count = objects.last = 0;
    objects.object[0].start = objects.object[0].end = 0;
    if (rule && !walk_step(w, rule))
        return;
    do {
        rule = find_rule(&w->c, &objects);
        if (recorded && recorded->going)
            trace_add(recorded, &w->c, rule, &objects.object[objects.last]);
    } while (walk_step(w, rule));
}

/* Walks to the end, and writes the trace if there is scratch memory for it. */
SA_NOINLINE static void walk_and_remember(struct walk *w, struct sa_trace *trace)
{
    struct sa_trace_recorded *recorded = sa_scratch_take();

    if (recorded) {
        recorded->count = 0;
        recorded->going = true;
        recorded->exact = w->c.exact;
    }
    walk_on(w, 0, recorded);
    if (recorded)
        sa_trace_cache_set(trace, recorded);
    sa_scratch_give(recorded);
}

/* Walks on from generated code, to the end. */
SA_RARE SA_NOINLINE static void walk_generated(struct walk *w)
{
    bool own = is_own(w->c.top) && pages_between(w->c.start, w->c.top) <= sa_thread.stack_pages;

    if (w->found && !w->c.exact)
        w->n = sa_unwind_generated(w->c.at, w->c.top, own, w->pc, w->n, w->max);
}

/* Returns the trace of the walks that begin as this one does, or NULL if `frame` is not a frame of
 * this stack. */
SA_INLINE struct sa_trace *walk_trace(struct walk *w)
{
    if (w->frame - w->c.sp > PAGE || !in_frame(&w->c, w->frame - 8, w->c.top))
        return NULL;
    return sa_trace_cache_of(read_stack(w->frame - 8) ^ w->found, w->frame);
}

SA_NOINLINE bool sa_unwind_fast(const void *frame, bool rbp_saved, uintptr_t *pc, unsigned max,
                                unsigned *ret_count)
{
    struct walk w = {.frame = (uintptr_t)frame, .pc = pc, .max = max};
    uintptr_t start, sp = w.frame, bp;
    struct sa_trace *trace;
    bool followed, goes_on;
    uint32_t sequence;
    uint64_t rule = 0;

    if (rbp_saved) {
        start = read_stack(w.frame - 8);
        bp = read_stack(w.frame - 16);
    } else {
        __asm__ volatile("lea 0(%%rip), %0\n\tmov %%rsp, %1\n\tmov %%rbp, %2"
                         : "=&r"(start), "=&r"(sp), "=&r"(bp));
    }
    walk_begin(&w, start, sp, bp, !rbp_saved);
    goes_on = w.n < max;
    trace = walk_trace(&w);
    if (trace && goes_on && sp % 8 == 0 && sa_trace_cache_begin(trace, &sequence)) {
        goes_on = walk_follow(&w, trace, &rule, &followed);
        if (SA_LIKELY(sa_trace_cache_is_whole(trace, sequence))) {
            sa_trace_cache_end(trace, followed);
        } else {
            walk_begin(&w, start, sp, bp, !rbp_saved);
            goes_on = true;
            rule = 0;
        }
        trace = NULL;
    }
    if (trace && goes_on)
        walk_and_remember(&w, trace);
    else if (goes_on)
        walk_on(&w, rule, NULL);
    if (SA_UNLIKELY(w.generated))
        walk_generated(&w);
    /* In a static program without an index of .eh_frame, nothing describes even the frames of the
     * allocator. The return address below `frame` is known nevertheless. */
    if (!w.found && max && w.frame > w.c.sp && in_frame(&w.c, w.frame - 8, w.c.top))
        pc[w.n++] = read_stack(w.frame - 8);
    *ret_count = w.n;
    return w.whole;
}

#endif
