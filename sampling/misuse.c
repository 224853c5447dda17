/* SPDX-License-Identifier: Apache-2.0 */
/* Reports of misuse; see misuse.h. */
#include "sampling/misuse.h"

#include "alloc/base/fatal.h"
#include "alloc/base/fmt.h"
#include "alloc/os/clock.h"
#include "alloc/os/sys.h"
#include "alloc/os/thread.h"
#include "alloc/os/vm.h"
#include "sampling/guarded.h"
#include "sampling/kept.h"
#include "sampling/misuse_frames.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define STACK_BYTES (256 * 1024)
#define WAIT_NS     100000000ll /* for another thread's report, so often: */
#define WAITS       50
#define MOST        16 /* reports of a process that survives them */

/* A report. */
struct report {
    char what[32];    /* "use after free" */
    char detail[160]; /* what follows the pointer */
    uintptr_t pointer;
    const char *done; /* "accessed", "freed" */
    const uintptr_t *pc;
    unsigned depth;
    const struct sa_found *found;
    uint64_t now;
};

static struct {
    uint32_t owner; /* atomic: thread that reports, or 0 */
    uint32_t count; /* of reports; written by the owner */
    char *stack;    /* atomic: lowest address */
} misuse;

void sa_misuse_prepare(void)
{
    char *none = NULL, *stack;

    if (sa_load_acquire(&misuse.stack))
        return;
    stack = sa_vm_map(NULL, STACK_BYTES, "salloc:report");
    if (stack && !sa_cas_release(&misuse.stack, &none, stack))
        sa_vm_unmap(stack, STACK_BYTES);
}

bool sa_misuse_find(uintptr_t address, struct sa_found *ret)
{
    return sa_guarded_find(address, ret) || sa_kept_find(address, ret);
}

/* Where it is, of which block; in words. */
static void add_place(struct sa_fmt *f, uintptr_t address, const struct sa_history *h)
{
    if (address < h->start)
        sa_fmt_add(f, "%zu bytes before the start of", (size_t)(h->start - address));
    else if (address >= h->start + h->requested)
        sa_fmt_add(f, "%zu bytes behind the end of", (size_t)(address - h->start - h->requested));
    else
        sa_fmt_add(f, "at offset %zu of", (size_t)(address - h->start));
}

static void add_block(struct sa_fmt *f, const char *kind, const struct sa_history *h)
{
    sa_fmt_add(f, " a %sblock of %zu bytes at %p", kind, h->requested, (void *)h->start);
}

/* A line about what happened, and its stack. */
static void report_stack(const char *done, uint32_t thread, uint64_t since_ns, const uintptr_t *pc,
                         unsigned depth)
{
    char text[64] = "";
    struct sa_fmt f;

    sa_fmt_init(&f, text, sizeof(text));
    if (thread)
        sa_fmt_add(&f, " by thread %u", thread);
    if (since_ns != UINT64_MAX)
        sa_fmt_add(&f, ", %.6F s before", (double)since_ns / 1e9);
    sa_warn("  %s%s:", done, text);
    sa_misuse_frames(pc, depth);
}

static void report_event(const char *done, const struct sa_event *e, uint64_t now)
{
    if (e->time_ns)
        report_stack(done, e->thread, now - e->time_ns, e->stack ? e->stack->pc : NULL,
                     e->stack ? e->stack->depth : 0);
}

static void report_lines(void *arg)
{
    const struct report *r = arg;
    const struct sa_history *h = &r->found->history;

    sa_warn("%s: %p %s", r->what, (void *)r->pointer, r->detail);
    report_stack(r->done, sa_sys_tid(), UINT64_MAX, r->pc, r->depth);
    if (r->found->state == SA_FOUND_NOTHING)
        return;
    report_event("freed", &h->freed, r->now);
    report_event("allocated", &h->allocated, r->now);
}

/* Calls f with another stack pointer. */
static void call_on_stack(char *top, void (*f)(void *arg), void *arg)
{
#if defined(__x86_64__)
    __asm__ volatile("mov %%rsp, %%rbx\n\t"
                     "mov %[top], %%rsp\n\t"
                     "call *%[f]\n\t"
                     "mov %%rbx, %%rsp"
                     : "+D"(arg), [top] "+a"(top), [f] "+d"(f)
                     :
                     : "rbx", "rcx", "rsi", "r8", "r9", "r10", "r11", "xmm0", "xmm1", "xmm2",
                       "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11",
                       "xmm12", "xmm13", "xmm14", "xmm15", "cc", "memory");
#elif defined(__aarch64__)
    register void *x0 __asm__("x0") = arg;

    __asm__ volatile("mov x19, sp\n\t"
                     "mov sp, %[top]\n\t"
                     "blr %[f]\n\t"
                     "mov sp, x19"
                     : "+r"(x0)
                     : [top] "r"(top), [f] "r"(f)
                     : "x19", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11",
                       "x12", "x13", "x14", "x15", "x16", "x17", "x30", "v0", "v1", "v2", "v3",
                       "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15",
                       "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26",
                       "v27", "v28", "v29", "v30", "v31", "cc", "memory");
#else
    (void)top;
    f(arg);
#endif
}

/* Makes this thread the one that reports. False: another one takes too long. */
static bool report_begin(void)
{
    /* Another number for each thread, and never 0; the thread's own may not be asked for (filter.h). */
    uint32_t self = (uint32_t)((uintptr_t)&sa_thread / sizeof(sa_thread)) | 1u << 31, owner = 0;

    for (int i = 0; i < WAITS; i++, owner = 0) {
        if (sa_cas_acquire(&misuse.owner, &owner, self))
            return true;
        if (owner == self)
            return false; /* the report itself failed */
        sa_sys_futex_wait(&misuse.owner, owner, WAIT_NS);
    }
    return false;
}

static void report_end(void)
{
    sa_store_release(&misuse.owner, 0);
    sa_sys_futex_wake(&misuse.owner, 1);
}

static void report(struct report *r)
{
    char *stack = sa_load_acquire(&misuse.stack);

    r->now = sa_clock_ns();
    if (!report_begin())
        return;
    if (misuse.count++ < MOST) {
        if (stack)
            call_on_stack(stack + STACK_BYTES, report_lines, r);
        else
            report_lines(r);
    }
    report_end();
}

/* Begins a report: the detail is to be added. */
static void report_init(struct report *r, struct sa_fmt *detail, const char *what,
                        uintptr_t pointer, const struct sa_found *found)
{
    struct sa_fmt f;

    memset(r, 0, sizeof(*r));
    r->found = found;
    r->pointer = pointer;
    sa_fmt_init(&f, r->what, sizeof(r->what));
    sa_fmt_add(&f, "%s", what);
    sa_fmt_init(detail, r->detail, sizeof(r->detail));
}

void sa_misuse_fault(uintptr_t address, enum sa_access access, const struct sa_found *found,
                     const uintptr_t *pc, unsigned depth)
{
    static const char *const names[] = {"access", "read", "write"};
    const struct sa_history *h = &found->history;
    struct report r;
    struct sa_fmt f;

    report_init(&r, &f,
                found->state == SA_FOUND_FREED     ? "use after free"
                : found->state == SA_FOUND_NOTHING ? "invalid access"
                : address < h->start               ? "heap buffer underflow"
                                                   : "heap buffer overflow",
                address, found);
    sa_fmt_add(&f, "%s ", names[access]);
    if (found->state == SA_FOUND_NOTHING) {
        sa_fmt_add(&f, "of guarded memory that holds no block");
    } else {
        add_place(&f, address, h);
        add_block(&f, found->state == SA_FOUND_FREED ? "freed " : "", h);
    }
    r.done = access == SA_ACCESS_READ ? "read" : access == SA_ACCESS_WRITE ? "written" : "accessed";
    r.pc = pc;
    r.depth = depth;
    report(&r);
}

/* Of a call of the allocator: captures its stack, and ends the program. */
SA_NORETURN static void report_call(struct report *r, const char *done)
{
    uintptr_t pc[SA_STACK_MOST];

    sa_misuse_prepare();
    r->done = done;
    r->pc = pc;
    r->depth = sa_stack_capture(sa_thread.caller, pc, SA_STACK_MOST);
    report(r);
    abort();
}

void sa_misuse_pointer(const char *what, const void *pointer, const struct sa_found *found)
{
    const struct sa_history *h = &found->history;
    uintptr_t address = (uintptr_t)pointer;
    bool is_free = strcmp(what, "invalid free") == 0;
    struct report r;
    struct sa_fmt f;

    if (found->state == SA_FOUND_FREED && is_free && address == h->start)
        what = "double free";
    report_init(&r, &f, what, address, found);
    if (found->state == SA_FOUND_NOTHING) {
        sa_fmt_add(&f, "was not allocated by salloc");
    } else if (found->state == SA_FOUND_FREED) {
        sa_fmt_add(&f, "lies in memory that is free, ");
        add_place(&f, address, h);
        add_block(&f, "freed ", h);
    } else {
        if (address - h->start < h->requested)
            sa_fmt_add(&f, "is inside a block of %zu bytes, not its start; ", h->requested);
        else
            sa_fmt_add(&f, "is not the start of a block; ");
        add_place(&f, address, h);
        add_block(&f, "", h);
    }
    report_call(&r, is_free ? "freed" : "passed");
}

void sa_misuse_sized(const void *pointer, const struct sa_found *found, const char *format, ...)
{
    struct report r;
    struct sa_fmt f;
    va_list ap;

    report_init(&r, &f, "sized free", (uintptr_t)pointer, found);
    va_start(ap, format);
    sa_fmt_addv(&f, format, ap);
    va_end(ap);
    report_call(&r, "freed");
}

void sa_misuse_damage(uintptr_t address, const struct sa_found *found)
{
    const struct sa_history *h = &found->history;
    struct report r;
    struct sa_fmt f;

    report_init(&r, &f, address < h->start ? "heap buffer underflow" : "heap buffer overflow",
                address, found);
    sa_fmt_add(&f, "was written, ");
    add_place(&f, address, h);
    add_block(&f, "", h);
    sa_fmt_add(&f, ", before it was freed");
    report_call(&r, "freed");
}
