/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vfork, and clone with CLONE_VM and CLONE_VFORK, exported so that their children can allocate: see
 * alloc/fork/vfork.h. posix_spawn, system and popen call neither function. All other clones go on
 * at once: to an interposer behind this library, or else to libc's. No variables but the cache of a
 * lookup.
 *
 * vfork returns twice on one stack, and the child overwrites the stack below the caller's frame. So
 * the return address and the mark, which the parent needs afterwards, are kept in registers: each
 * process has its own. vfork makes the system call itself, because a function that called libc's
 * vfork could not return twice. On x86-64 the child leaves by a jump. On a processor with a shadow
 * stack the child shares it with its parent, and must leave the parent's return address on it, as
 * libc's vfork does. An architecture without such instructions here keeps libc's vfork, whose
 * children must not allocate.
 */
#include "alloc/fork/vfork.h"

#include "alloc/api/interposers/dlsym.h"
#include "alloc/api/init.h"
#include "alloc/base/attrs.h"
#include "alloc/base/syscall.h"
#include "alloc/os/loader.h"

#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <sys/types.h>

/* The assembly below calls these. */
SA_HIDDEN uint64_t sa_vfork_before(void) __attribute__((used));
SA_HIDDEN int sa_vfork_after(long result, uint64_t mark) __attribute__((used));
SA_HIDDEN int sa_vfork_refuse(void) __attribute__((used));

#if defined(__x86_64__)
__asm__(".pushsection .text.sa_vfork,\"ax\",@progbits\n\t"
        ".balign 16\n\t"
        ".globl vfork\n\t"
        ".type vfork,@function\n"
        "vfork:\n\t"
        ".cfi_startproc\n\t"
        "endbr64\n\t"
        "subq $8,%rsp\n\t"
        ".cfi_adjust_cfa_offset 8\n\t"
        "call sa_vfork_before\n\t"
        "addq $8,%rsp\n\t"
        ".cfi_adjust_cfa_offset -8\n\t"
        "cmpq $-1,%rax\n\t" /* SA_VFORK_REFUSED */
        "je sa_vfork_refuse\n\t"
        "movq %rax,%rsi\n\t"
        "popq %rdi\n\t"
        ".cfi_adjust_cfa_offset -8\n\t"
        ".cfi_register %rip,%rdi\n\t"
        "movl $58,%eax\n\t" /* SYS_vfork */
        "syscall\n\t"
        "pushq %rdi\n\t"
        ".cfi_adjust_cfa_offset 8\n\t"
        ".cfi_offset %rip,-8\n\t"
        "testq %rax,%rax\n\t"
        "jz 1f\n\t"
        "movq %rax,%rdi\n\t"
        "jmp sa_vfork_after\n"
        "1: subq $8,%rsp\n\t"
        ".cfi_adjust_cfa_offset 8\n\t"
        "call sa_vfork_child\n\t"
        "addq $8,%rsp\n\t"
        ".cfi_adjust_cfa_offset -8\n\t"
        "xorl %eax,%eax\n\t"
        "popq %rdi\n\t"
        ".cfi_adjust_cfa_offset -8\n\t"
        ".cfi_register %rip,%rdi\n\t"
        "jmp *%rdi\n\t"
        ".cfi_endproc\n\t"
        ".size vfork,.-vfork\n\t"
        ".weak __vfork\n\t" /* libc.a has it, too */
        ".set __vfork,vfork\n\t"
        ".popsection");
SA_STATIC_ASSERT(SYS_vfork == 58, "as above");
#elif defined(__aarch64__)
__asm__(".pushsection .text.sa_vfork,\"ax\",%progbits\n\t"
        ".balign 16\n\t"
        ".globl vfork\n\t"
        ".type vfork,%function\n"
        "vfork:\n\t"
        ".cfi_startproc\n\t"
        "hint #34\n\t" /* bti c */
        "stp x29,x30,[sp,#-16]!\n\t"
        ".cfi_def_cfa_offset 16\n\t"
        ".cfi_offset x29,-16\n\t"
        ".cfi_offset x30,-8\n\t"
        "bl sa_vfork_before\n\t"
        "ldp x29,x30,[sp],#16\n\t"
        ".cfi_restore x29\n\t"
        ".cfi_restore x30\n\t"
        ".cfi_def_cfa_offset 0\n\t"
        "cmn x0,#1\n\t" /* SA_VFORK_REFUSED */
        "b.eq sa_vfork_refuse\n\t"
        "mov x9,x0\n\t"
        "mov x0,#0x4111\n\t" /* CLONE_VM | CLONE_VFORK | SIGCHLD */
        "mov x1,#0\n\t"
        "mov x2,#0\n\t"
        "mov x3,#0\n\t"
        "mov x4,#0\n\t"
        "mov x8,#220\n\t" /* SYS_clone */
        "svc #0\n\t"
        "cbz x0,1f\n\t"
        "mov x1,x9\n\t"
        "b sa_vfork_after\n"
        "1: stp x29,x30,[sp,#-16]!\n\t"
        ".cfi_def_cfa_offset 16\n\t"
        ".cfi_offset x29,-16\n\t"
        ".cfi_offset x30,-8\n\t"
        "bl sa_vfork_child\n\t"
        "ldp x29,x30,[sp],#16\n\t"
        ".cfi_restore x29\n\t"
        ".cfi_restore x30\n\t"
        ".cfi_def_cfa_offset 0\n\t"
        "mov w0,#0\n\t"
        "ret\n\t"
        ".cfi_endproc\n\t"
        ".size vfork,.-vfork\n\t"
        ".weak __vfork\n\t" /* libc.a has it, too */
        ".set __vfork,vfork\n\t"
        ".popsection");
SA_STATIC_ASSERT(SYS_clone == 220, "as above");
#endif

uint64_t sa_vfork_before(void)
{
    sa_init(); /* now, because a child may be killed inside */
    return sa_vfork_begin();
}

int sa_vfork_after(long result, uint64_t mark)
{
    sa_vfork_end(mark);
    if (!sa_syscall_failed(result))
        return (int)result;
    errno = (int)-result;
    return -1;
}

int sa_vfork_refuse(void)
{
    errno = EAGAIN;
    return -1;
}

typedef int (*clone_function)(int (*)(void *), void *, int, void *, ...);

/* libc's clone, under the name that this library does not define. */
extern int __clone(int (*function)(void *), void *stack, int flags, void *arg, ...);

static void *interposer; /* sa_loader_interposer */

/* What clone_start calls in the child. */
struct start {
    int (*function)(void *);
    void *arg;
};

static int clone_start(void *arg)
{
    const struct start *s = arg; /* lies on the stack of the parent's thread, which waits */

    sa_vfork_child();
    return s->function(s->arg);
}

/* What clone takes beyond the four. libc's clone reads three as well, whether or not the caller has
 * passed them. */
struct rest {
    pid_t *parent_tid;
    void *tls;
    pid_t *child_tid;
};

#define READ_REST(ret, last)                                                                       \
    do {                                                                                           \
        va_list ap;                                                                                \
                                                                                                   \
        va_start(ap, last);                                                                        \
        (ret).parent_tid = va_arg(ap, pid_t *);                                                    \
        (ret).tls = va_arg(ap, void *);                                                            \
        (ret).child_tid = va_arg(ap, pid_t *);                                                     \
        va_end(ap);                                                                                \
    } while (0)

/* clone for a child in the parent's memory: holds the CPU as vfork does. */
static int clone_waiting(clone_function next, const struct start *start, void *stack, int flags,
                         const struct rest *rest)
{
    uint64_t mark = sa_vfork_before();
    int pid;

    if (mark == SA_VFORK_REFUSED)
        return sa_vfork_refuse();
    pid = next(clone_start, stack, flags, (void *)start, rest->parent_tid, rest->tls,
               rest->child_tid);
    sa_vfork_end(mark);
    return pid;
}

/* clone, which goes on to `next`. */
static int clone_by(clone_function next, int (*function)(void *), void *stack, int flags, void *arg,
                    const struct rest *rest)
{
    const int waits = CLONE_VM | CLONE_VFORK;

    /* Only children that share the memory and the thread-local storage of the waiting thread. */
    if ((flags & (waits | CLONE_SETTLS | CLONE_THREAD)) != waits || !function)
        return next(function, stack, flags, arg, rest->parent_tid, rest->tls, rest->child_tid);
    return clone_waiting(next, &(struct start){function, arg}, stack, flags, rest);
}

SA_EXPORT int clone(int (*function)(void *), void *stack, int flags, void *arg, ...)
{
    void *next = sa_loader_interposer(&interposer, "clone");
    struct rest rest;

    READ_REST(rest, arg);
    return clone_by(next ? (clone_function)next : __clone, function, stack, flags, arg, &rest);
}

int sa_direct_clone(int (*function)(void *), void *stack, int flags, void *arg, ...)
{
    struct rest rest;

    READ_REST(rest, arg);
    return clone_by(__clone, function, stack, flags, arg, &rest);
}
