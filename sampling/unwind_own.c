/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Our own walk of the stack: rules of unwind_cfi.h, remembered by address.
 *
 * The cache of rules is shared by all threads and signal handlers and has no lock. An entry is two words,
 * {tag ^ rule, rule}, read and written separately. The tag is a mix of the code address and the
 * identity of its object, a bijection of the address for one object. A reader that sees the halves of two writes, {t1 ^ r1,
 * r2}, accepts them only if t1 ^ r1 ^ r2 is the tag it looks for: if r1 = r2 then it is t1, whose rule that is; else
 * only by an accident of 64 mixed bits, as for two tags that are equal. An object that is unloaded takes no
 * entry away; one that comes to its place has another identity (unwind_object.h).
 *
 * The stack is read only between the stack pointer and what must be its top, upwards, so a chain that is
 * broken ends the walk. libgcc believes it.
 */
#include "sampling/unwind.h"

#ifdef SA_UNWIND_OWN

#include "alloc/base/atomic.h"
#include "alloc/base/attrs.h"
#include "alloc/base/rng.h"
#include "sampling/unwind_cfi.h"
#include "sampling/unwind_object.h"

#include <stddef.h>

#define CACHE_ENTRIES 8192                 /* 128 KiB, of which only what is used is ever touched */
#define OBJECTS       4                    /* of one stack, remembered during the walk */
#define INNER_MOST    64                   /* frames of the allocator itself */
#define FRAME_MOST    ((uintptr_t)1 << 30) /* bytes: beyond this the chain is broken */
#define RED_ZONE      128                  /* below the stack pointer, in use */

static struct {
    uint64_t check, rule; /* atomic */
} cache[CACHE_ENTRIES];

extern void *__libc_stack_end SA_WEAK;

struct cursor {
    uintptr_t pc, sp, bp;
    bool exact;    /* pc is where a signal came, not a return address */
    uintptr_t top; /* of the stack, at most */
    struct sa_unwind_object objects[OBJECTS];
    unsigned object_count;
};

/* The slots read are not the sanitizer's business: it knows variables only. */
__attribute__((no_sanitize("address", "thread"))) static inline uintptr_t read_stack(uintptr_t at)
{
    return *(const uintptr_t *)at;
}

/* Threads have their control block above their stack; the first has its stack where the kernel put it. On a
 * stack from elsewhere (coroutines, signals) the bound is not tight. */
static uintptr_t stack_top(uintptr_t sp)
{
    uintptr_t thread, top = UINTPTR_MAX;

    __asm__("mov %%fs:0, %0" : "=r"(thread));
    if (&__libc_stack_end && sp < (uintptr_t)__libc_stack_end)
        top = (uintptr_t)__libc_stack_end;
    return sp < thread && thread < top ? thread : top;
}

static const struct sa_unwind_object *find_object(struct cursor *c, uintptr_t address)
{
    struct sa_unwind_object *o;

    for (unsigned i = 0; i < OBJECTS && i < c->object_count; i++)
        if (address - c->objects[i].start < c->objects[i].end - c->objects[i].start)
            return &c->objects[i];
    o = &c->objects[c->object_count % OBJECTS];
    o->start = o->end = 0;
    if (!sa_unwind_object_find(address, o))
        return NULL;
    c->object_count++;
    return o;
}

static uint64_t find_rule(struct cursor *c)
{
    uintptr_t address = c->exact ? c->pc : c->pc - 1;
    const struct sa_unwind_object *o = find_object(c, address);
    uint64_t tag, rule;
    unsigned i;

    if (SA_UNLIKELY(!o))
        return SA_RULE_NONE;
    if (SA_UNLIKELY(!o->identity))
        return sa_unwind_rule(o, address);
    tag = sa_rng_mix(address + o->identity);
    i = tag % CACHE_ENTRIES;
    rule = sa_load_relaxed(&cache[i].rule);
    if (SA_LIKELY(rule && (sa_load_relaxed(&cache[i].check) ^ rule) == tag))
        return rule;
    rule = sa_unwind_rule(o, address);
    sa_store_relaxed(&cache[i].check, tag ^ rule);
    sa_store_relaxed(&cache[i].rule, rule);
    return rule;
}

/* A word of this frame, which ends at `end`, or of the stack at all. */
static bool in_frame(const struct cursor *c, uintptr_t at, uintptr_t end)
{
    return at % 8 == 0 && at >= c->sp - RED_ZONE && at <= end - 8 && end <= c->top;
}

static bool leave_frame(struct cursor *c, uint64_t rule)
{
    uintptr_t base = rule & SA_RULE_CFA_RBP ? c->bp : c->sp;
    uintptr_t cfa = base + (uintptr_t)((int64_t)rule >> 32), at;

    if (rule & SA_RULE_CFA_STORED) {
        if (!in_frame(c, cfa, c->top) || cfa - c->sp > FRAME_MOST)
            return false;
        cfa = read_stack(cfa);
    }
    if (cfa - c->sp > FRAME_MOST || cfa == c->sp || !in_frame(c, cfa - 8, cfa))
        return false;
    if (rule & (SA_RULE_RBP_AT_CFA | SA_RULE_RBP_AT_RBP)) {
        at = (rule & SA_RULE_RBP_AT_CFA ? cfa : c->bp) + (uintptr_t)(int16_t)(rule >> 16);
        if (!in_frame(c, at, cfa))
            return false;
        c->bp = read_stack(at);
    }
    c->pc = read_stack(cfa - 8);
    c->sp = cfa;
    c->exact = false;
    return true;
}

/* The kernel wrote the interrupted registers right above the stack pointer. */
static bool leave_signal(struct cursor *c, uint64_t rule)
{
    uintptr_t bp = c->sp + (rule >> 16 & 0xffff), sp = c->sp + (rule >> 32 & 0xffff),
              pc = c->sp + (rule >> 48);

    if (!in_frame(c, bp, c->top) || !in_frame(c, sp, c->top) || !in_frame(c, pc, c->top))
        return false;
    c->bp = read_stack(bp);
    c->sp = read_stack(sp);
    c->pc = read_stack(pc);
    c->top = stack_top(c->sp);
    c->exact = true;
    return true;
}

SA_NOINLINE bool sa_unwind_own(const void *frame, uintptr_t *pc, unsigned most, unsigned *ret_count)
{
    struct cursor c;
    bool found = false; /* frame was reached */
    unsigned inner = 0, n = 0;

    *ret_count = 0;
    __asm__ volatile("lea 0(%%rip), %0\n\tmov %%rsp, %1\n\tmov %%rbp, %2"
                     : "=&r"(c.pc), "=&r"(c.sp), "=&r"(c.bp));
    c.exact = true;
    c.top = stack_top(c.sp);
    c.object_count = 0;
    while (n < most) {
        uint64_t rule = find_rule(&c);

        switch (rule & SA_RULE_KIND) {
        case SA_RULE_FRAME:
            if (!leave_frame(&c, rule))
                goto end;
            break;
        case SA_RULE_SIGNAL:
            if (!leave_signal(&c, rule))
                goto end;
            break;
        case SA_RULE_OTHER:
            return false;
        default:
            goto end;
        }
        found = found || c.sp >= (uintptr_t)frame;
        if (!c.pc || (!found && ++inner == INNER_MOST))
            break;
        if (found)
            pc[n++] = c.pc + c.exact;
    }
end:
    *ret_count = n;
    return true;
}

#endif
