/* SPDX-License-Identifier: Apache-2.0 */
/* Reports of misuse; see misuse.h. State: counters and hashes, written by the thread that reports.
 */
#include "sampling/guard/misuse.h"

#include "alloc/base/fatal.h"
#include "alloc/base/fmt.h"
#include "alloc/base/rng.h"
#include "alloc/os/clock.h"
#include "alloc/os/sys.h"
#include "alloc/os/thread.h"
#include "alloc/output/stderr_file.h"
#include "pagemap/pagemap.h"
#include "sampling/guard/guarded.h"
#include "sampling/guard/misuse_frames.h"
#include "sampling/guard/pointer_lookup.h"
#include "sampling/guard/reporting.h"
#include "sampling/guard/sample_quarantine.h"

#include <stdlib.h>
#include <string.h>

#define REPORTS_MAX 16 /* of a process that survives them */

/* The contents of a report. */
struct report {
    char what[32];    /* "use after free" */
    char detail[160]; /* the text behind the pointer */
    uintptr_t pointer;
    const char *done;    /* the title of the stack of now: "accessed", "freed" */
    const uintptr_t *pc; /* that stack; NULL: the caller of the allocator, captured into `own` */
    uintptr_t *own;      /* room for SA_STACK_MAX frames */
    unsigned depth;
    const struct sa_lookup *found;
    uint64_t now;
};

bool sa_misuse_find(uintptr_t address, struct sa_lookup *ret)
{
    return sa_guarded_find(address, ret) || sa_sample_quarantine_find(address, ret);
}

/* Adds in words where an address lies relative to a block. */
static void add_place(struct sa_fmt *f, uintptr_t address, const struct sa_block_history *h)
{
    if (address < h->start)
        sa_fmt_add(f, "%zu bytes before the start of", (size_t)(h->start - address));
    else if (address >= h->start + h->requested)
        sa_fmt_add(f, "%zu bytes behind the end of", (size_t)(address - h->start - h->requested));
    else
        sa_fmt_add(f, "at offset %zu of", (size_t)(address - h->start));
}

static void add_block(struct sa_fmt *f, const char *kind, const struct sa_block_history *h)
{
    sa_fmt_add(f, " a %sblock of %zu bytes at %p", kind, h->requested, (void *)h->start);
}

/* Writes a line with the title of a stack, and the stack. thread: 0: not named. since_ns:
 * UINT64_MAX: no time. */
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
    sa_reporting_line("  %s%s:", done, text);
    sa_misuse_frames(pc, depth);
}

static void report_event(const char *done, const struct sa_event *e, uint64_t now)
{
    if (e->time_ns)
        report_stack(done, e->thread, now - e->time_ns, e->stack ? e->stack->pc : NULL,
                     e->stack ? e->stack->depth : 0);
}

static void report_first(void *arg)
{
    const struct report *r = arg;

    sa_reporting_line("%s: %p %s", r->what, (void *)r->pointer, r->detail);
}

/* Writes the process and the stack of now: the part behind the first line. */
static void report_now(void *arg)
{
    const struct report *r = arg;

    sa_reporting_process();
    report_stack(r->done, sa_reporting_confined() ? 0 : sa_sys_tid(), UINT64_MAX, r->pc, r->depth);
}

static void report_freed(void *arg)
{
    const struct report *r = arg;

    if (r->found->state != SA_LOOKUP_NOTHING)
        report_event("freed", &r->found->history.freed, r->now);
}

static void report_allocated(void *arg)
{
    const struct report *r = arg;

    if (r->found->state != SA_LOOKUP_NOTHING)
        report_event("allocated", &r->found->history.allocated, r->now);
}

/* Writes one part of a report. A fault in it ends that part alone; false then. */
static bool report_part(void (*part)(void *arg), struct report *r)
{
    bool done = sa_reporting_call(part, r);

    if (!done)
        sa_reporting_line("    (names cannot be read)");
    return done;
}

static void report_stacks(struct report *r)
{
    if (!report_part(report_now, r))
        for (unsigned i = 0; i < r->depth; i++)
            sa_reporting_line("    #%u 0x%zx", i, (size_t)(r->pc[i] - 1));
    report_part(report_freed, r);
    report_part(report_allocated, r);
}

static void report(struct report *r, enum sa_reporting_end end)
{
    static uint32_t count; /* written by the thread that reports */

    r->now = sa_clock_ns();
    if (!sa_reporting_begin(end))
        return;
    if (count++ < REPORTS_MAX) {
        sa_reporting_call(report_first, r);
        if (!r->pc) {
            r->depth = sa_reporting_capture(sa_thread.caller, r->own, SA_STACK_MAX);
            r->pc = r->own;
        }
        report_stacks(r);
    }
    sa_reporting_finish();
}

static const char *done_by(const char *what)
{
    if (strcmp(what, "double free") == 0 || strcmp(what, "invalid free") == 0 ||
        strcmp(what, "sized free") == 0 || strcmp(what, "mismatched free") == 0 ||
        strncmp(what, "heap buffer", 11) == 0)
        return "freed";
    if (strcmp(what, "invalid realloc") == 0 || strcmp(what, "malloc_usable_size") == 0 ||
        strcmp(what, "mismatched realloc") == 0)
        return "passed";
    return "found";
}

/* Fills in a report. The caller adds the detail. */
static void report_init(struct report *r, struct sa_fmt *detail, const char *what,
                        uintptr_t pointer, const struct sa_lookup *found)
{
    struct sa_fmt f;

    memset(r, 0, sizeof(*r));
    r->found = found;
    r->pointer = pointer;
    sa_fmt_init(&f, r->what, sizeof(r->what));
    sa_fmt_add(&f, "%s", what);
    sa_fmt_init(detail, r->detail, sizeof(r->detail));
}

void sa_misuse_fault(uintptr_t address, enum sa_access access, const struct sa_lookup *found,
                     const uintptr_t *pc, unsigned depth)
{
    static const char *const names[] = {"access", "read", "write"};
    const struct sa_block_history *h = &found->history;
    struct report r;
    struct sa_fmt f;

    report_init(&r, &f,
                found->state == SA_LOOKUP_FREED     ? "use after free"
                : found->state == SA_LOOKUP_NOTHING ? "invalid access"
                : address < h->start                ? "heap buffer underflow"
                                                    : "heap buffer overflow",
                address, found);
    sa_fmt_add(&f, "%s ", names[access]);
    if (found->state == SA_LOOKUP_NOTHING) {
        sa_fmt_add(&f, "of guarded memory that holds no block");
    } else {
        add_place(&f, address, h);
        add_block(&f, found->state == SA_LOOKUP_FREED ? "freed " : "", h);
    }
    r.done = access == SA_ACCESS_READ ? "read" : access == SA_ACCESS_WRITE ? "written" : "accessed";
    r.pc = pc;
    r.depth = depth;
    report(&r, SA_REPORTING_FAULTS);
}

/* Reports the call of the allocator that is in progress, and aborts. */
SA_NORETURN static void report_call(struct report *r, const char *done)
{
    uintptr_t pc[SA_STACK_MAX];

    r->done = done;
    r->own = pc;
    report(r, SA_REPORTING_ABORTS);
    abort();
}

const char *sa_misuse_describe(struct sa_fmt *f, const char *what, uintptr_t address,
                               const struct sa_lookup *found)
{
    const struct sa_block_history *h = &found->history;

    if (found->state == SA_LOOKUP_NOTHING) {
        sa_fmt_add(f, "was not allocated by salloc");
    } else if (found->state == SA_LOOKUP_FREED) {
        if (strcmp(what, "invalid free") == 0 && address == h->start)
            what = "double free";
        sa_fmt_add(f, "lies in memory that is free, ");
        add_place(f, address, h);
        add_block(f, "freed ", h);
    } else {
        if (address - h->start < h->requested)
            sa_fmt_add(f, "is inside a block of %zu bytes, not its start; ", h->requested);
        else
            sa_fmt_add(f, "is not the start of a block; ");
        add_place(f, address, h);
        add_block(f, "", h);
    }
    return what;
}

void sa_misuse_pointer(const char *what, const void *pointer, const struct sa_lookup *found)
{
    struct report r;
    struct sa_fmt f;
    char text[160] = "";

    sa_fmt_init(&f, text, sizeof(text));
    what = sa_misuse_describe(&f, what, (uintptr_t)pointer, found);
    report_init(&r, &f, what, (uintptr_t)pointer, found);
    sa_fmt_add(&f, "%s", text);
    report_call(&r, done_by(what));
}

/* True if no report about this stack was made. Called by the thread that reports, with *count below
 * REPORTS_MAX. */
static bool stack_is_new(const uintptr_t *pc, unsigned depth, uint32_t *count)
{
    static uint64_t said[REPORTS_MAX];
    uint64_t hash = depth;

    SA_DCHECK(*count < REPORTS_MAX);
    for (unsigned i = 0; i < depth; i++)
        hash = sa_rng_mix(hash ^ pc[i]);
    for (unsigned i = 0; i < *count; i++)
        if (said[i] == hash)
            return false;
    said[*count] = hash;
    sa_store_relaxed(count, *count + 1);
    return true;
}

void sa_misuse_survives(const char *what, const void *pointer, const struct sa_lookup *found,
                        const char *text)
{
    static uint32_t count; /* atomic, relaxed; written by the thread that reports */
    /* The thread that reports owns these two: the caller's stack may be short. */
    static uintptr_t pc[SA_STACK_MAX];
    static struct report r;
    struct sa_fmt f;

    if (sa_load_relaxed(&count) == REPORTS_MAX || !sa_reporting_begin(SA_REPORTING_SURVIVES))
        return;
    report_init(&r, &f, what, (uintptr_t)pointer, found);
    sa_fmt_add(&f, "%s", text);
    r.done = done_by(what);
    r.now = sa_clock_ns();
    r.pc = pc;
    r.depth = sa_reporting_capture(sa_thread.caller, pc, SA_STACK_MAX);
    if (count < REPORTS_MAX && stack_is_new(pc, r.depth, &count)) {
        sa_reporting_call(report_first, &r);
        report_stacks(&r);
    }
    sa_reporting_finish();
}

static void damage_init(struct report *r, uintptr_t address, const struct sa_lookup *found,
                        bool live)
{
    const struct sa_block_history *h = &found->history;
    struct sa_fmt f;

    SA_DCHECK(address < h->start || address >= h->start + h->requested);
    report_init(r, &f, address < h->start ? "heap buffer underflow" : "heap buffer overflow",
                address, found);
    sa_fmt_add(&f, "was written, ");
    add_place(&f, address, h);
    add_block(&f, "", h);
    sa_fmt_add(&f, "%s", live ? ", which is in use" : ", before it was freed");
}

void sa_misuse_damage(uintptr_t address, const struct sa_lookup *found, bool live)
{
    struct report r;

    damage_init(&r, address, found, live);
    report_call(&r, live ? "found" : "freed");
}

void sa_misuse_damage_survives(uintptr_t address, const struct sa_lookup *found)
{
    struct report r;

    damage_init(&r, address, found, false);
    sa_misuse_survives(r.what, (void *)address, found, r.detail);
}

/* Looks up the block at the pointer of a report, if it was sampled. */
static void find_sample(void *arg)
{
    struct report *r = arg;
    struct sa_lookup *found = (struct sa_lookup *)r->found;
    const struct sa_span *span;

    if (sa_misuse_find(r->pointer, found))
        return;
    span = r->pointer ? sa_pagemap_find_around(r->pointer) : NULL;
    if (span && sa_lookup_sample(span, found))
        return;
    found->state = SA_LOOKUP_NOTHING;
}

static void say_text(void *line)
{
    sa_reporting_text(line);
}

void sa_misuse_fatal(const char *what, const void *pointer, const char *line)
{
    uintptr_t pc[SA_STACK_MAX];
    struct sa_lookup found = {.state = SA_LOOKUP_NOTHING};
    struct report r = {.pointer = (uintptr_t)pointer, .found = &found, .own = pc};

    r.done = done_by(what);
    r.now = sa_clock_ns();
    if (!sa_reporting_begin(SA_REPORTING_ABORTS)) {
        if (sa_stderr_file_may(true))
            sa_fatal_write(line, strlen(line));
        return;
    }
    sa_reporting_call(say_text, (void *)line);
    r.depth = sa_reporting_capture(sa_thread.caller, r.own, SA_STACK_MAX);
    r.pc = r.own;
    if (!sa_reporting_call(find_sample, &r))
        found.state = SA_LOOKUP_NOTHING;
    report_stacks(&r);
    sa_reporting_finish();
}
