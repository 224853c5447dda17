/* SPDX-License-Identifier: Apache-2.0 */
/* The handler of SIGSEGV; see fault_handler.h. State: whether it is installed, and the handler
 * before it. */
#include "sampling/guard/fault_handler.h"

#include "alloc/base/atomic.h"
#include "alloc/base/attrs.h"
#include "alloc/base/fatal.h"
#include "alloc/os/filter.h"
#include "alloc/os/sys.h"
#include "alloc/os/thread.h"
#include "sampling/guard/misuse.h"
#include "sampling/guard/pointer_lookup.h"
#include "sampling/guard/reporting.h"
#include "sampling/stack/loaded_object.h"

#include <errno.h>
#include <link.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

static struct {
    uint32_t state; /* atomic: 0: no handler; 1: installed, or being installed; 2: forbidden */
    struct sigaction before; /* const after installation */
} fault;

#define CAPTURED (SA_STACK_MAX + 16) /* frames, with those of this file */

#if defined(__aarch64__)
#define ESR_WRITE (1u << 6)

/* The kind of access, from the syndrome among the records that the kernel adds to the registers. */
static enum sa_access fault_access(const ucontext_t *context)
{
    const struct _aarch64_ctx *at = (const void *)context->uc_mcontext.__reserved;
    const char *end = (const char *)at + sizeof(context->uc_mcontext.__reserved);

    while ((const char *)(at + 1) <= end && at->magic && at->size) {
        if (at->magic == ESR_MAGIC)
            return ((const struct esr_context *)at)->esr & ESR_WRITE ? SA_ACCESS_WRITE
                                                                     : SA_ACCESS_READ;
        at = (const void *)((const char *)at + at->size);
    }
    return SA_ACCESS;
}

static uintptr_t fault_pc(const ucontext_t *context)
{
    return context->uc_mcontext.pc;
}
#elif defined(__x86_64__)
#define ERROR_WRITE 2

static enum sa_access fault_access(const ucontext_t *context)
{
    return context->uc_mcontext.gregs[REG_ERR] & ERROR_WRITE ? SA_ACCESS_WRITE : SA_ACCESS_READ;
}

static uintptr_t fault_pc(const ucontext_t *context)
{
    return (uintptr_t)context->uc_mcontext.gregs[REG_RIP];
}
#else
static enum sa_access fault_access(const ucontext_t *context)
{
    (void)context;
    return SA_ACCESS;
}

static uintptr_t fault_pc(const ucontext_t *context)
{
    (void)context;
    return 0;
}
#endif

/* Captures the interrupted stack: the stack from here on, without the frames of this file. */
static unsigned fault_stack(const ucontext_t *context, uintptr_t *pc)
{
    uintptr_t leaf = fault_pc(context) + 1;
    unsigned n = sa_stack_capture(NULL, pc, CAPTURED), first = 0;

    SA_DCHECK(n <= CAPTURED);
    while (first < n && pc[first] != leaf)
        first++;
    if (first == n) {
        pc[0] = leaf;
        return 1;
    }
    memmove(pc, pc + first, (n - first) * sizeof(*pc));
    return n - first;
}

/* Out of line: faults of other memory do not need this much stack. */
static SA_NOINLINE void fault_report(uintptr_t address, const struct sa_lookup *found,
                                     const ucontext_t *context)
{
    uintptr_t pc[CAPTURED];

    sa_misuse_fault(address, fault_access(context), found, pc, fault_stack(context, pc));
}

/* Reports a fault at an inaccessible page of salloc. Returns in any case. */
static SA_NOINLINE void fault_look(const siginfo_t *info, const ucontext_t *context)
{
    uintptr_t address = (uintptr_t)info->si_addr;
    struct sa_lookup found;

    if (sa_misuse_find(address, &found))
        sa_lookup_nearer(address, &found);
    else if (!sa_lookup_large(address, &found))
        return;
    /* The pages of a block in use are accessible: a fault there has another cause. */
    if (found.state != SA_LOOKUP_LIVE || found.between)
        fault_report(address, &found, context);
}

#define NOT_MAPPED ((uintptr_t)-4096) /* the kernel's half: no program can map it */

/*
 * Ends the process by the default action of SIGSEGV without a system call, which a filter might
 * answer with another signal. The kernel ends a process that faults while the signal is blocked, as
 * it is in a handler that replaced the default action.
 */
SA_COLD static void fault_end(void)
{
    *(volatile char *)NOT_MAPPED = 0;
}

/* Does what would have happened without this handler. */
static void fault_pass_on(int number, siginfo_t *info, void *context)
{
    struct sigaction standard = {.sa_handler = SIG_DFL};

    if (fault.before.sa_flags & SA_SIGINFO) {
        fault.before.sa_sigaction(number, info, context);
    } else if (fault.before.sa_handler != SIG_DFL && fault.before.sa_handler != SIG_IGN) {
        fault.before.sa_handler(number);
    } else if (sa_filtered()) {
        fault_end();
    } else {
        /* The instruction is executed again, and faults. A signal that was sent is sent again. */
        if (sigaction(number, &standard, NULL) != 0)
            abort(); /* a filter refused: the fault would return here forever */
        if (info->si_code <= 0)
            sa_sys_signal_self(number, info);
    }
}

static void fault_handler(int number, siginfo_t *info, void *context)
{
    int saved = errno;

    if (info->si_code > 0 && sa_reporting_fault(context))
        return;
    if (info->si_code == SEGV_ACCERR)
        fault_look(info, context);
    errno = saved;
    fault_pass_on(number, info, context);
}

void sa_fault_forbid(void)
{
    sa_store_relaxed(&fault.state, 2);
}

SA_ONCE bool sa_fault_may_report(void)
{
    uint32_t state = sa_load_relaxed(&fault.state);

    return state == 1 || (state == 0 && !sa_filtered());
}

/* Whether the handler is that of a Java virtual machine, which checks that it stays (java
 * -Xcheck:jni), and lives on faults of its own. */
static bool is_of_java(const struct sigaction *action)
{
    static const char library[] = "/libjvm.so";
    bool info = action->sa_flags & SA_SIGINFO;
    uintptr_t handler = info ? (uintptr_t)action->sa_sigaction : (uintptr_t)action->sa_handler;
    struct sa_loaded_object found;
    size_t length;

    if (!sa_loaded_object_find(handler, &found) || !found.map)
        return false;
    length = strlen(found.map->l_name);
    return length >= sizeof(library) && memcmp(found.map->l_name + length - (sizeof(library) - 1),
                                               library, sizeof(library) - 1) == 0;
}

SA_ONCE static void fault_install(void)
{
    struct sigaction action = {.sa_sigaction = fault_handler};

    SA_DCHECK(sa_load_relaxed(&fault.state) == 1);
    sa_reporting_prepare();
    if (sigaction(SIGSEGV, NULL, &fault.before) != 0)
        return;
    if (!(fault.before.sa_flags & SA_SIGINFO) && fault.before.sa_handler == SIG_IGN)
        return; /* unlike a handler, SIG_IGN is inherited by programs that this one starts */
    if (is_of_java(&fault.before)) {
        sa_store_relaxed(&fault.state, 2);
        return;
    }
    if (!(fault.before.sa_flags & SA_SIGINFO) && fault.before.sa_handler == SIG_DFL) {
        action.sa_flags = SA_SIGINFO | SA_ONSTACK;
        sigfillset(&action.sa_mask);
    } else {
        /* The environment in which the kernel would call the handler before. */
        action.sa_flags = fault.before.sa_flags | SA_SIGINFO;
        action.sa_mask = fault.before.sa_mask;
    }
    sigaction(SIGSEGV, &action, NULL);
}

SA_ONCE void sa_fault_prepare(void)
{
    uint32_t none = 0;

    /* A child of vfork has its own handlers, but shares fault.state with its parent. */
    if (SA_LIKELY(sa_load_relaxed(&fault.state) != 0) || sa_filtered() || sa_thread.area.vfork ||
        !sa_cas_acquire(&fault.state, &none, 1))
        return;
    fault_install();
}

void sa_fault_prepare_last(void)
{
    if (sa_load_relaxed(&fault.state) != 1) {
        sa_store_relaxed(&fault.state, 1);
        fault_install();
    }
}
