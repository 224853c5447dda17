/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walks through generated code; see unwind_generated.h.
 *
 * Nothing says whether rbp is a frame pointer in generated code. Frames of such code are left by
 * rbp, upwards, in steps of FRAME_MAX at most. They are taken only if that leads to a call in an
 * object that has a frame further down in the same stack, or is never unloaded. What called
 * generated code is what the code calls: the interpreter, or the runtime. Frames of objects are
 * left by their rules again, but any of them may have been chosen by words that were no frame
 * pointers. So the walk stays here to its end, and trusts nothing:
 *
 * * Words of the stack are read as they are only where the stack is known to be the thread's own,
 *   and as deep as that. Of other stacks the kernel copies them; it says so if they are not there.
 *   Behind a filter of system calls the walk ends.
 * * An object is read only if it cannot be unloaded: one that is permanent, or that has a frame in
 *   the part of the stack below the generated code. The search for it reads the loader's index.
 * * What it finds says nothing about how deep the thread's stack is.
 */
#include "sampling/stack/unwind_generated.h"

#include "alloc/base/attrs.h"
#include "alloc/os/filter.h"
#include "alloc/os/scratch.h"
#include "alloc/os/sys.h"
#include "sampling/stack/unwind.h"

#include <stdlib.h>

#ifdef SA_UNWIND_FAST

#include "sampling/stack/unwind_cache.h"
#include "sampling/stack/unwind_cfi.h"
#include "sampling/stack/unwind_object.h"

#define WORD      sizeof(uintptr_t)
#define FRAME_MAX ((uintptr_t)1 << 16) /* bytes between two frame pointers of generated code */
#define BIG_MAX   ((uintptr_t)1 << 20) /* bytes of another frame */
#define CODE_MIN  ((uintptr_t)1 << 16) /* no code is below, ... */
#define CODE_MAX  ((uintptr_t)1 << 47) /* ... and none above */
#define WINDOW    128                  /* words that the kernel copies at a time */
#define CALL_MAX  7                    /* bytes of a call instruction */

struct chain {
    struct sa_unwind_registers at;
    uintptr_t top;
    bool own;
    uint32_t tid;             /* 0: not asked for yet */
    const uintptr_t *trusted; /* addresses of the walk before the first generated code */
    unsigned trusted_count;
    uintptr_t from; /* address of window[0] */
    unsigned words; /* in the window */
    uintptr_t window[WINDOW];
};

/* Reads a word of the thread's own stack. Sanitizers know variables only, so they must not look. */
__attribute__((no_sanitize("address", "thread"))) static uintptr_t read_own(uintptr_t at)
{
    return *(const uintptr_t *)at;
}

/* Reads a word at or above the stack pointer. False: it cannot be read. */
static bool chain_read(struct chain *c, uintptr_t at, uintptr_t *ret)
{
    uintptr_t bytes = c->top - at;
    long copied;

    if (at % WORD || at < c->at.sp || at >= c->top || bytes < WORD)
        return false;
    if (c->own) {
        *ret = read_own(at);
        return true;
    }
    if (at < c->from || (at - c->from) / WORD >= c->words) {
        c->tid = c->tid ? c->tid : sa_sys_tid();
        copied = sa_sys_copy_memory(c->tid, c->window, (const void *)at,
                                    bytes < sizeof(c->window) ? bytes : sizeof(c->window));
        c->from = at;
        c->words = copied > 0 ? (unsigned)copied / WORD : 0;
        if (!c->words)
            return false;
    }
    *ret = c->window[(at - c->from) / WORD];
    return true;
}

/* Returns whether an object cannot be unloaded: libc, or what has a frame in the stack. */
static bool is_trusted(const struct chain *c, const struct sa_loaded_object *o)
{
    if ((uintptr_t)abort - o->start < o->end - o->start)
        return true;
    for (unsigned i = 0; i < c->trusted_count; i++)
        if (c->trusted[i] - 1 - o->start < o->end - o->start)
            return true;
    return false;
}

/* Returns whether the instruction before the address calls: call rel32, or call r/m64. True also if
 * the object's headers do not say whether code can be read there. */
static bool follows_call(const struct sa_unwind_object *o, uintptr_t pc)
{
    const uint8_t *end = (const uint8_t *)pc;

    if (!sa_unwind_object_has_headers(o))
        return true;
    if (!sa_unwind_object_has_code(o, pc - CALL_MAX, CALL_MAX))
        return false;
    if (end[-5] == 0xe8)
        return true;
    for (int bytes = 2; bytes <= CALL_MAX; bytes++)
        if (end[-bytes] == 0xff && (end[-bytes + 1] >> 3 & 7) == 2)
            return true;
    return false;
}

/* Returns the rule of the frame, SA_RULE_NONE for generated code; 0: the address is not one of a
 * frame. */
static uint64_t chain_rule(const struct chain *c)
{
    struct sa_loaded_object loaded;
    struct sa_unwind_object object;
    uintptr_t pc = c->at.pc;

    if (pc < CODE_MIN || pc >= CODE_MAX)
        return 0;
    if (!sa_unwind_object_find_permanent(pc - 1, &object)) {
        if (!sa_loaded_object_find(pc - 1, &loaded))
            return SA_RULE_NONE;
        if (!is_trusted(c, &loaded) || !sa_unwind_object_find(pc - 1, &object))
            return 0;
    }
    return follows_call(&object, pc) ? sa_unwind_rule_of(&object, pc - 1) : 0;
}

/* Goes to the caller of a frame that keeps a frame pointer. */
static bool leave_by_pointer(struct chain *c)
{
    uintptr_t bp = c->at.bp, next, pc;

    if (bp - c->at.sp > FRAME_MAX || !chain_read(c, bp, &next) || !chain_read(c, bp + WORD, &pc))
        return false;
    c->at = (struct sa_unwind_registers){pc, bp + 2 * WORD, next};
    return true;
}

/* Goes to the caller of a frame by its rule (unwind_cfi.h). */
static bool leave_by_rule(struct chain *c, uint64_t rule)
{
    uintptr_t base = rule & SA_RULE_CFA_RBP ? c->at.bp : c->at.sp;
    uintptr_t cfa = base + (uintptr_t)((int64_t)rule >> 32), bp = c->at.bp, pc;
    int16_t saved = (int16_t)(rule >> 16);

    if (rule & SA_RULE_CFA_R10 || (rule & SA_RULE_CFA_STORED && !chain_read(c, cfa, &cfa)))
        return false;
    if (cfa - c->at.sp - WORD > BIG_MAX || !chain_read(c, cfa - WORD, &pc) ||
        (rule & SA_RULE_RBP_AT_CFA && !chain_read(c, cfa + (uintptr_t)saved, &bp)) ||
        (rule & SA_RULE_RBP_AT_RBP && !chain_read(c, c->at.bp + (uintptr_t)saved, &bp)))
        return false;
    c->at = (struct sa_unwind_registers){pc, cfa, bp};
    return true;
}

SA_RARE SA_NOINLINE unsigned sa_unwind_generated(struct sa_unwind_registers at, uintptr_t top,
                                                 bool own, uintptr_t *pc, unsigned n, unsigned max)
{
    struct chain *c = sa_scratch_take();
    unsigned count = n, sure = n; /* addresses stored, and those that count */

    if (!c)
        return n;
    *c = (struct chain){.at = at, .top = top, .own = own, .trusted = pc, .trusted_count = n - 1};
    while (count < max && (own || !sa_filtered())) {
        uint64_t rule = chain_rule(c);
        unsigned kind = rule & SA_RULE_KIND;

        if (!rule)
            break;
        if (kind != SA_RULE_NONE)
            sure = count;
        if (kind != SA_RULE_NONE && kind != SA_RULE_FRAME)
            break;
        if (!(kind == SA_RULE_FRAME ? leave_by_rule(c, rule) : leave_by_pointer(c)) || !c->at.pc)
            break;
        pc[count++] = c->at.pc;
    }
    sa_scratch_give(c);
    return sure;
}

SA_RARE bool sa_unwind_is_generated(uintptr_t pc)
{
    struct sa_unwind_object object;

    return !sa_unwind_object_find(pc - 1, &object) ||
           (sa_unwind_rule_of(&object, pc - 1) & SA_RULE_KIND) == SA_RULE_NONE;
}

#endif
