/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The making of reports; see reporting.h. State: the thread that reports (atomic). All other fields
 * belong to that thread, unless they say otherwise.
 *
 * Faults: sa_reporting_call stores the stack pointer from which it calls. When the call faults, the
 * handler of SIGSEGV continues the thread behind that call. The alternate signal stack is off
 * meanwhile: the handler that reports may run on it, and a second signal would overwrite its frame.
 */
#include "sampling/guard/reporting.h"

#include "alloc/base/atomic.h"
#include "alloc/base/fatal.h"
#include "alloc/os/clock.h"
#include "alloc/output/file.h"
#include "alloc/os/filter.h"
#include "alloc/os/own_proc.h"
#include "alloc/os/stack_switch.h"
#include "alloc/output/stderr_file.h"
#include "alloc/os/sys.h"
#include "alloc/os/thread.h"
#include "alloc/os/vm.h"
#include "sampling/guard/abort_message.h"
#include "sampling/guard/fault_handler.h"
#include "sampling/stack/loaded_object.h"
#include "sampling/stack/stack.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <ucontext.h>

#define STACK_BYTES (256 * 1024)
#define WAIT_NS     100000000ll /* of each wait for the report of another thread */
#define WAITS       50          /* so a report waits for at most 5 s */
#define LINE_BYTES  1024

SA_START_DATA const char *sa_reporting_path;

/* The thread that reports (see self); 0: none. Atomic. */
static SA_START_DATA uint32_t reporting_owner;

static struct {
    char *stack;   /* atomic: the stack of reports, lowest address; NULL: not mapped */
    bool touched;  /* the stack counts as used; atomic, relaxed */
    bool confined; /* sa_reporting_confine was called; atomic, relaxed */
    /* These belong to the thread that reports: */
    enum sa_reporting_end end;
    bool said;      /* the first line was written */
    bool to_stderr; /* lines go there */
    char line[LINE_BYTES];
    char path[SA_FILE_PATH_MAX];
    int fd;           /* of the file; -1: none */
    uint64_t late_ns; /* the time after which no names are looked up */
    void *fault_sp; /* atomic, relaxed: stack pointer after a fault; NULL: faults are not caught */
    bool may_fault; /* faults_begin has unblocked SIGSEGV */
    uint64_t mask;  /* the mask of signals before that */
} reporting;

/* A number of this thread, not 0, without a system call: from the address of its variables. */
static uint32_t self(void)
{
    return (uint32_t)((uintptr_t)&sa_thread >> 6) | 1;
}

void sa_reporting_confine(void)
{
    sa_store_relaxed(&reporting.confined, true);
}

bool sa_reporting_confined(void)
{
    return sa_load_relaxed(&reporting.confined) || sa_filtered() || getauxval(AT_SECURE) != 0;
}

SA_ONCE void sa_reporting_prepare(void)
{
    char *none = NULL, *stack;

    if (sa_load_acquire(&reporting.stack))
        return;
    stack = sa_vm_map_reserved(STACK_BYTES, "salloc:report");
    if (stack && !sa_cas_release(&reporting.stack, &none, stack)) {
        sa_vm_use_reserved(STACK_BYTES);
        sa_vm_unmap(stack, STACK_BYTES);
    }
}

/* --- calls that may fault --- */

/* Calls f(arg) on a stack; NULL: this one. False: a fault ended the call. */
static bool call_on(char *top, void (*f)(void *arg), void *arg)
{
    void *sp = NULL;
    bool done;

    /* The switch stores its stack pointer where the handler reads it, or in a local variable if
     * faults are not caught. */
    done = sa_stack_switch(top, f, arg, reporting.may_fault ? &reporting.fault_sp : &sp);
    sa_store_relaxed(&reporting.fault_sp, NULL);
    return done;
}

struct call {
    void (*f)(void *arg);
    void *arg;
    stack_t alternate; /* the alternate signal stack before */
    bool off;          /* it was taken off, and is to be set again */
};

/* Runs a call on the stack of reports. From there the alternate signal stack can be taken off, even
 * if a handler runs on it. */
static void call_there(void *arg)
{
    static const stack_t off = {.ss_flags = SS_DISABLE};
    struct call *c = arg;

    c->off = reporting.may_fault && sa_sys_signal_stack(&off, &c->alternate) == 0;
    c->alternate.ss_flags &= ~SS_ONSTACK;
    c->f(c->arg);
}

bool sa_reporting_call(void (*f)(void *arg), void *arg)
{
    char *stack = sa_load_acquire(&reporting.stack);
    struct call c = {.f = f, .arg = arg};
    bool done;

    SA_DCHECK(sa_load_relaxed(&reporting_owner) == self());
    if (!stack)
        return call_on(NULL, f, arg);
    if (!sa_load_relaxed(&reporting.touched)) { /* one thread reports at a time */
        sa_store_relaxed(&reporting.touched, true);
        sa_vm_use_reserved(STACK_BYTES);
    }
    done = call_on(stack + STACK_BYTES, call_there, &c);
    if (c.off)
        sa_sys_signal_stack(&c.alternate, NULL);
    return done;
}

struct capture {
    const void *frame;
    uintptr_t *pc;
    unsigned max, n;
};

static void capture(void *arg)
{
    struct capture *c = arg;

    c->n = sa_stack_capture(c->frame, c->pc, c->max);
}

/* The start of the loaded object that has the code at pc; NULL: unknown. */
static const void *object_of(uintptr_t pc)
{
    struct sa_loaded_object found;

    return sa_loaded_object_find(pc, &found) ? (const void *)found.start : NULL;
}

/* Removes the frames of this library from the top of a stack, unless the library is part of the
 * program's own file, or the stack has no other frames. Returns the frames left. */
static unsigned leave_out_own(uintptr_t *pc, unsigned n)
{
    const void *own = object_of((uintptr_t)&sa_reporting_capture);
    unsigned first = 0;

    if (own == object_of(getauxval(AT_ENTRY)))
        return n;
    while (first < n && object_of(pc[first] - 1) == own)
        first++;
    if (first == n)
        return n;
    memmove(pc, pc + first, (n - first) * sizeof(*pc));
    return n - first;
}

unsigned sa_reporting_capture(const void *frame, uintptr_t *pc, unsigned max)
{
    struct capture c = {frame, pc, max, 0};

    memset(pc, 0, max * sizeof(*pc));
    if (!call_on(NULL, capture, &c))
        for (c.n = 0; c.n < max && pc[c.n];) /* the frames before the fault */
            c.n++;
    return frame ? c.n : leave_out_own(pc, c.n);
}

bool sa_reporting_fault(void *context)
{
    ucontext_t *c = context;
    void *sp;

    if (SA_LIKELY(!sa_load_relaxed(&reporting_owner)) ||
        sa_load_relaxed(&reporting_owner) != self() || !(sp = sa_load_relaxed(&reporting.fault_sp)))
        return false;
    sa_store_relaxed(&reporting.fault_sp, NULL);
#if defined(__x86_64__)
    c->uc_mcontext.gregs[REG_RSP] = (greg_t)(uintptr_t)sp;
    c->uc_mcontext.gregs[REG_RIP] = (greg_t)(uintptr_t)sa_stack_switch_back;
#elif defined(__aarch64__)
    c->uc_mcontext.sp = (uintptr_t)sp;
    c->uc_mcontext.pc = (uintptr_t)sa_stack_switch_back;
#else
    (void)c;
#endif
    return true;
}

/* Lets faults of this thread reach the handler of SIGSEGV from now on, also where a handler has
 * begun this report. */
static void faults_begin(void)
{
    reporting.may_fault = !sa_reporting_confined();
    if (!reporting.may_fault)
        return;
    if (reporting.end == SA_REPORTING_ABORTS)
        sa_fault_prepare_last();
    reporting.mask = sa_sys_unblock(SIGSEGV);
}

static void faults_end(void)
{
    if (reporting.may_fault)
        sa_sys_set_mask(reporting.mask);
    reporting.may_fault = false;
}

/* --- one report --- */

/* Makes this thread the owner; false: it cannot be. A report that the program survives does not
 * wait: it can be made another time. */
static bool own(enum sa_reporting_end end)
{
    uint32_t owner = 0;

    for (int i = 0; i < WAITS; i++, owner = 0) {
        if (sa_cas_acquire(&reporting_owner, &owner, self()))
            return true;
        if (owner == self())
            return false; /* misuse within a report */
        if (end == SA_REPORTING_SURVIVES)
            return false;
        sa_sys_futex_wait(&reporting_owner, owner, WAIT_NS);
    }
    return false;
}

static void disown(void)
{
    sa_store_release(&reporting_owner, 0);
    sa_sys_futex_wake(&reporting_owner, 1);
}

/* Opens the file of reports; -1: none. Only a regular file is opened: opening another kind may wait
 * or have effects. */
static int open_file(void)
{
    char *path = reporting.path;
    int mode, fd;

    if (!sa_reporting_path || !sa_reporting_path[0] || sa_reporting_confined() ||
        sa_file_expand(sa_reporting_path, path, sizeof(reporting.path)) != 0)
        return -1;
    mode = sa_sys_file_mode(path);
    if (mode >= 0 && !S_ISREG(mode))
        return -1;
    fd =
        sa_sys_open(path, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0600);
    if (fd >= 0 && !S_ISREG(sa_sys_open_mode(fd))) {
        sa_sys_close(fd);
        return -1;
    }
    return fd;
}

void sa_reporting_warn(const char *line, size_t bytes)
{
    int fd;

    if (sa_stderr_file_may(false)) {
        sa_fatal_write(line, bytes);
        return;
    }
    if (!own(SA_REPORTING_ABORTS)) /* waits: this line comes once */
        return;
    fd = open_file();
    if (fd >= 0) {
        sa_sys_file_write_quiet(fd, line, bytes);
        sa_sys_close(fd);
    }
    disown();
}

SA_FORK void sa_reporting_after_fork(void)
{
    sa_store_changed(&reporting_owner, 0);
}

bool sa_reporting_begin(enum sa_reporting_end end)
{
    bool to_stderr = sa_stderr_file_may(end != SA_REPORTING_SURVIVES);

    if (end == SA_REPORTING_SURVIVES && !to_stderr && (!sa_reporting_path || !sa_reporting_path[0]))
        return false; /* nobody would read it */
    if (!own(end))
        return false;
    reporting.to_stderr = to_stderr;
    sa_reporting_prepare();
    reporting.end = end;
    reporting.late_ns = sa_clock_ns() + SA_REPORTING_SECONDS * 1000000000ull;
    reporting.fd = -1;
    reporting.said = false;
    return true;
}

void sa_reporting_finish(void)
{
    SA_DCHECK(sa_load_relaxed(&reporting_owner) == self());
    faults_end();
    if (reporting.fd >= 0)
        sa_sys_close(reporting.fd);
    reporting.fd = -1;
    disown();
}

void sa_reporting_text(const char *line)
{
    size_t bytes = strlen(line);

    SA_DCHECK(sa_load_relaxed(&reporting_owner) == self());
    if (reporting.to_stderr)
        sa_fatal_write(line, bytes);
    if (!reporting.said) { /* the first line is out, whatever happens from here on */
        reporting.said = true;
        faults_begin();
        reporting.fd = open_file();
        sa_abort_message_begin(reporting.end == SA_REPORTING_ABORTS);
    }
    if (reporting.end != SA_REPORTING_SURVIVES)
        sa_abort_message_add(line, bytes);
    if (reporting.fd >= 0)
        sa_sys_file_write_quiet(reporting.fd, line, bytes);
}

void sa_reporting_line(const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    sa_fatal_format(reporting.line, sizeof(reporting.line), format, ap);
    va_end(ap);
    sa_reporting_text(reporting.line);
}

bool sa_reporting_late(void)
{
    return sa_clock_ns() > reporting.late_ns;
}

/* Writes the process and thread of the report, by system calls. */
static void process_line(void)
{
    char *path = reporting.path, name[32];
    long length = sa_own_proc_link("exe", path, SA_FILE_PATH_MAX / 4);

    if (sa_sys_read_file("/proc/thread-self/comm", name, sizeof(name)) <= 0)
        name[0] = '\0';
    name[strcspn(name, "\n")] = '\0';
    sa_reporting_line("  in process %d (%s), thread %u (%s)", sa_sys_pid(),
                      length > 0 ? path : sa_reporting_program(), sa_sys_tid(), name);
}

const char *sa_reporting_program(void)
{
    const char *path = (const char *)getauxval(AT_EXECFN);

    return path ? path : "?";
}

void sa_reporting_process(void)
{
    if (sa_reporting_confined())
        sa_reporting_line("  in program %s", sa_reporting_program());
    else
        process_line();
}
