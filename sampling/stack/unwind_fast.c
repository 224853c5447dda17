/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Our own walk of the stack: rules of unwind_cfi.h, remembered by address (unwind_cache.h), and
 * those of whole stacks that come again (unwind_trace_cache.h).
 *
 * The stack is read only between the stack pointer and what must be its top, upwards, so a chain
 * that is broken ends the walk. libgcc believes it. Where the top is not known, as on the stacks of
 * coroutines, whose last return address may be anything, the kernel is asked whether a page can be
 * read before it is. So that this is rare, a thread remembers how far below its top its own stack,
 * on which a walk came to the end, was seen to go on.
 */
#include "sampling/stack/unwind.h"

#ifdef SA_UNWIND_FAST

#include "alloc/base/atomic.h"
#include "alloc/base/attrs.h"
#include "alloc/os/sys.h"
#include "alloc/os/thread.h"
#include "sampling/stack/unwind_cache.h"
#include "sampling/stack/unwind_cfi.h"
#include "sampling/stack/unwind_object.h"
#include "sampling/stack/unwind_trace_cache.h"

#include <stddef.h>

#define OBJECTS   4                    /* of one stack, remembered during the walk */
#define INNER_MAX 64                   /* frames of the allocator itself */
#define FRAME_MAX ((uintptr_t)1 << 30) /* bytes: beyond this the chain is broken */
#define RED_ZONE  128                  /* below the stack pointer, in use */
#define PAGE      ((uintptr_t)4096)
#define NEAR_TOP  ((uintptr_t)65536) /* where the outermost frame of a thread is */

extern void *__libc_stack_end SA_WEAK;

struct cursor {
    uintptr_t pc, sp, bp;
    uintptr_t r10;      /* if exact */
    uintptr_t top;      /* of the stack, at most */
    uintptr_t start;    /* stack pointer at first, or after the last change of stacks */
    uintptr_t readable; /* from there to here */
    bool exact;         /* pc is where a signal came, not a return address */
    bool dismantled;    /* a frame was passed whose description no longer holds, see leave_frame */
};

/* Of this walk. */
struct objects {
    struct sa_unwind_object object[OBJECTS];
    unsigned count, last;
};

/* The slots read are not the sanitizer's business: it knows variables only. */
__attribute__((no_sanitize("address", "thread"))) static inline uintptr_t read_stack(uintptr_t at)
{
    return *(const uintptr_t *)at;
}

/* Threads have their control block above their stack; the first has its stack where the kernel put
 * it. On a stack from elsewhere (coroutines, signals) the bound is not tight. */
static uintptr_t stack_top(uintptr_t sp)
{
    uintptr_t thread, top = UINTPTR_MAX;

    __asm__("mov %%fs:0, %0" : "=r"(thread));
    if (&__libc_stack_end && sp < (uintptr_t)__libc_stack_end)
        top = (uintptr_t)__libc_stack_end;
    return sp < thread && thread < top ? thread : top;
}

/* What sa_thread.stack_first says. */
enum { THREAD_UNKNOWN, THREAD_FIRST, THREAD_OTHER };

/*
 * Whether a top is that of the thread's own stack. The first thread's control block is not above
 * its stack, but may lie right above that of a coroutine.
 */
static bool is_own(uintptr_t top)
{
    bool first = &__libc_stack_end && top == (uintptr_t)__libc_stack_end;

    return sa_thread.stack_first == (first ? THREAD_FIRST : THREAD_OTHER);
}

/* Counted so that whoever is in the lower page, anywhere, is as far from the top. */
static uintptr_t pages_between(uintptr_t low, uintptr_t top)
{
    return top / PAGE - low / PAGE;
}

/* After a change of the stack pointer: what is known of the stack. */
static void enter_stack(struct cursor *c, uintptr_t readable)
{
    c->top = stack_top(c->sp);
    c->start = c->sp;
    c->readable = readable;
    if (is_own(c->top) && pages_between(c->sp, c->top) <= sa_thread.stack_pages)
        c->readable = c->top;
}

/* Whether a word can be read that lies beyond what is known; frames of many pages are not looked
 * into. */
SA_NOINLINE static bool read_further(struct cursor *c, uintptr_t at)
{
    if (at - c->readable > NEAR_TOP)
        c->readable = at & -PAGE;
    for (; c->readable <= at; c->readable += PAGE)
        if (!sa_sys_is_readable((const void *)c->readable))
            return false;
    return true;
}

/* The walk came to an end: if it is the thread's own stack, it is there for as long as the thread
 * is. */
static void remember_stack(const struct cursor *c)
{
    uintptr_t pages = pages_between(c->start, c->top);

    if (c->sp > c->top || c->top - c->sp > NEAR_TOP)
        return;
    if (sa_thread.stack_first == THREAD_UNKNOWN)
        sa_thread.stack_first = sa_sys_is_first_thread() ? THREAD_FIRST : THREAD_OTHER;
    if (is_own(c->top) && pages > sa_thread.stack_pages)
        sa_thread.stack_pages = (uint16_t)(pages < UINT16_MAX ? pages : UINT16_MAX);
}

static bool is_in(const struct sa_unwind_object *o, uintptr_t address)
{
    return address - o->start < o->end - o->start;
}

/* Makes the object of the address the last one. */
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
    o->start = o->end = 0; /* also if there is none */
    if (!sa_unwind_object_find(address, o))
        return false;
    objects->count++;
    return true;
}

SA_INLINE uint64_t find_rule(const struct cursor *c, struct objects *objects)
{
    uintptr_t address = c->pc - !c->exact;

    if (SA_UNLIKELY(!is_in(&objects->object[objects->last], address)) &&
        !find_object(objects, address))
        return SA_RULE_NONE;
    return sa_unwind_rule_of(&objects->object[objects->last], address);
}

/* A word of this frame, which ends at `end`, or of the stack at all. */
SA_INLINE bool in_frame(struct cursor *c, uintptr_t at, uintptr_t end)
{
    return at % 8 == 0 && at >= c->sp - RED_ZONE && at <= end - 8 && end <= c->top &&
           (SA_LIKELY(at < c->readable) || read_further(c, at));
}

/* What may become a step of a path. The first step of all is the only one whose address is
 * exact. */
static void path_add(struct sa_trace_cache_made *made, const struct cursor *c, uint64_t rule,
                     const struct sa_unwind_object *o)
{
    unsigned kind = rule & SA_RULE_KIND;
    uint32_t i = 0;

    if ((kind != SA_RULE_FRAME && kind != SA_RULE_END) || !is_in(o, c->pc - !c->exact) ||
        !o->identity || c->exact != (made->count == 0)) {
        made->going = false;
        return;
    }
    while (i < made->count && made->step[i].rule != SA_TRACE_CACHE_OBJECT(o->identity))
        i++;
    if (!o->permanent && i == made->count)
        sa_trace_cache_add(made, c->pc, SA_TRACE_CACHE_OBJECT(o->identity));
    sa_trace_cache_add(made, c->pc,
                       sa_trace_cache_is_plain(rule) ? rule | SA_TRACE_CACHE_PLAIN : rule);
}

SA_INLINE bool leave_frame(struct cursor *c, uint64_t rule)
{
    uintptr_t base = rule & SA_RULE_CFA_RBP ? c->bp : rule & SA_RULE_CFA_R10 ? c->r10 : c->sp;
    uintptr_t cfa = base + (uintptr_t)((int64_t)rule >> 32), at;

    if (rule & SA_RULE_CFA_STORED) {
        if (!in_frame(c, cfa, c->top) || cfa - c->sp > FRAME_MAX)
            return false;
        cfa = read_stack(cfa);
    }
    /* The return address is in the frame, as in_frame has it. */
    if (cfa - c->sp - 1 >= FRAME_MAX || cfa % 8 || cfa > c->top ||
        (SA_UNLIKELY(cfa - 8 >= c->readable) && !read_further(c, cfa - 8)))
        return false;
    if (rule & SA_RULE_RBP_AT_CFA) {
        at = cfa + (uintptr_t)(int16_t)(rule >> 16);
        if (!in_frame(c, at, cfa))
            return false;
        c->bp = read_stack(at);
    } else if (rule & SA_RULE_RBP_AT_RBP) {
        /* Compilers leave this rule in place for the last instruction of the function, when rbp is
         * the caller's already, and no longer points into the frame. */
        at = c->bp + (uintptr_t)(int16_t)(rule >> 16);
        if (in_frame(c, at, cfa))
            c->bp = read_stack(at);
        else
            c->dismantled = true;
    }
    c->pc = read_stack(cfa - 8);
    c->sp = cfa;
    c->r10 = 0; /* not known, and nobody can want it at a call */
    c->exact = false;
    return true;
}

/* The kernel wrote the interrupted registers right above the stack pointer. */
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

/* What changes from one usual frame to the next. */
struct state {
    uintptr_t pc, sp, bp;
};

struct walk {
    struct cursor c;
    uintptr_t frame, *pc;
    unsigned inner, n, most;
    bool found; /* frame was reached */
    bool whole;
};

static void walk_begin(struct walk *w, uintptr_t pc, uintptr_t sp, uintptr_t bp)
{
    w->c = (struct cursor){.pc = pc, .sp = sp, .bp = bp, .exact = true};
    enter_stack(&w->c, (sp & -PAGE) + PAGE);
    w->inner = w->n = 0;
    w->found = false;
    w->whole = true;
}

/* Leaves a frame by its rule, and notes who called. False: the walk is at its end. */
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
        /* libgcc reads where the description says, also in a frame that is dismantled. */
        w->whole = w->c.dismantled;
        return false;
    case SA_RULE_END:
        remember_stack(&w->c);
        return false;
    default:
        return false;
    }
    w->found = w->found || w->c.sp >= w->frame;
    if (!w->c.pc || (!w->found && ++w->inner == INNER_MAX))
        return false;
    if (w->found)
        w->pc[w->n++] = w->c.pc + w->c.exact;
    return w->n < w->most;
}

/* As leave_frame, of what is usual. False: not here, and *state is not of use any more. */
SA_INLINE bool leave_usual_frame(struct state *state, uint64_t rule, uintptr_t limit)
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

/* Whether what has the return address is what the path says. */
SA_NOINLINE static bool is_object(uintptr_t pc, uint64_t rule)
{
    struct sa_unwind_object o;

    return sa_unwind_object_find(pc - 1, &o) && SA_TRACE_CACHE_OBJECT(o.identity) == rule;
}

/*
 * As far as the path is right, and about usual frames; *ret_rule: the one that it has for what
 * follows, or 0. False: the walk is at its end.
 */
SA_NOINLINE static bool walk_follow(struct walk *w, const struct sa_path *path, uint64_t *ret_rule,
                                    bool *ret_followed)
{
    struct state state = {w->c.pc, w->c.sp, w->c.bp}, next;
    uintptr_t limit = w->c.top < w->c.readable ? w->c.top : w->c.readable, frame = w->frame;
    uintptr_t *pc = w->pc, *pc_end = pc + w->most; /* none is there yet */
    const struct sa_trace_cache_step *step = path->step;
    const struct sa_trace_cache_step *end = step + sa_load_relaxed(&path->count);
    uint64_t rule = 0;

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
        w->c.pc = state.pc;
        w->c.sp = state.sp;
        w->c.bp = state.bp;
        w->c.exact = false;
        w->inner = (unsigned)(step - path->step);
        w->found = state.sp >= frame;
    }
    w->n = (unsigned)(pc - w->pc);
    *ret_rule = rule;
    return state.pc && pc != pc_end;
}

/* By rules looked up one by one, the first of which may be known. They are added to `made`, if it
 * is not NULL. */
SA_INLINE void walk_on(struct walk *w, uint64_t rule, struct sa_trace_cache_made *made)
{
    struct objects objects;

    objects.count = objects.last = 0;
    objects.object[0].start = objects.object[0].end = 0;
    if (rule && !walk_step(w, rule))
        return;
    do {
        rule = find_rule(&w->c, &objects);
        if (made && made->going)
            path_add(made, &w->c, rule, &objects.object[objects.last]);
    } while (walk_step(w, rule));
}

/* The same, remembered as a path. */
SA_NOINLINE static void walk_and_remember(struct walk *w, struct sa_path *path)
{
    struct sa_trace_cache_made made = {.count = 0, .going = true};

    walk_on(w, 0, &made);
    sa_trace_cache_set(path, &made);
}

/* The path of the walks that begin as this one does, or NULL. */
SA_INLINE struct sa_path *walk_path(struct walk *w)
{
    if (w->frame - w->c.sp > PAGE || !in_frame(&w->c, w->frame - 8, w->c.top))
        return NULL;
    return sa_trace_cache_of(read_stack(w->frame - 8), w->frame);
}

SA_NOINLINE bool sa_unwind_fast(const void *frame, uintptr_t *pc, unsigned most,
                                unsigned *ret_count)
{
    struct walk w = {.frame = (uintptr_t)frame, .pc = pc, .most = most};
    uintptr_t start, sp, bp;
    struct sa_path *path;
    bool followed, goes_on = most > 0;
    uint32_t sequence;
    uint64_t rule = 0;

    __asm__ volatile("lea 0(%%rip), %0\n\tmov %%rsp, %1\n\tmov %%rbp, %2"
                     : "=&r"(start), "=&r"(sp), "=&r"(bp));
    walk_begin(&w, start, sp, bp);
    path = walk_path(&w);
    if (path && goes_on && sp % 8 == 0 && sa_trace_cache_begin(path, &sequence)) {
        goes_on = walk_follow(&w, path, &rule, &followed);
        if (SA_LIKELY(sa_trace_cache_is_whole(path, sequence))) {
            sa_trace_cache_end(path, followed);
        } else {
            walk_begin(&w, start, sp, bp);
            goes_on = true;
            rule = 0;
        }
        path = NULL;
    }
    if (path && goes_on)
        walk_and_remember(&w, path);
    else if (goes_on)
        walk_on(&w, rule, NULL);
    /* Not even our own frames are described (a static program without an index of its frames): what
     * is sure is the return address below the CFA. */
    if (!w.found && most && w.frame > w.c.sp && in_frame(&w.c, w.frame - 8, w.c.top))
        pc[w.n++] = read_stack(w.frame - 8);
    *ret_count = w.n;
    return w.whole;
}

#endif
