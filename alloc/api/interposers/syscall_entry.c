/* SPDX-License-Identifier: Apache-2.0 */
/*
 * syscall, exported for the calls that a program makes by number: those that mark memory
 * (mark_calls.h) and those that announce a filter (prctl.h) are noted as calls by name are. Every
 * call goes on unchanged: to an interposer behind this library, or else as the instruction.
 *
 * A call may return twice (vfork), on another stack (clone), with other registers (rt_sigreturn),
 * or never. What is noted is therefore noted before, by a C function that has returned when the
 * call is made. At the call, the stack and the registers that calls preserve are as at the entry.
 * Behind it, the code reads nothing but the result and the return address, as libc's function does.
 * An interposer is called by a jump, with the arguments and the return address as they came.
 *
 * A number that is not in the table costs two comparisons and two loads. Nothing waits, but for
 * what precedes a filter. Each call is as safe as libc's in signal handlers, in children of vfork
 * and before this library is relocated.
 *
 * Variables: a table of constants, and the cache of a lookup.
 */
#include "alloc/api/interposers/dlsym.h"
#include "alloc/api/interposers/mark_calls.h"
#include "alloc/api/interposers/prctl.h"
#include "alloc/base/attrs.h"
#include "alloc/base/syscall.h"
#include "alloc/os/loader.h"

#include <errno.h>
#include <sys/mman.h>

/* An architecture without entries here, and the sanitizers, which replace mprotect and others as
 * well, keep libc's function. */
#if SA_SYSCALL_ENTRY

enum { NUMBERS = 512, SECCOMP_STRICT = 0, SECCOMP_FILTER = 1 };

/* The assembly reads these two: whether a number is one of sa_syscall_note, and what
 * sa_loader_interposer has found. */
SA_HIDDEN extern const bool sa_syscall_noted[NUMBERS];
SA_HIDDEN extern void *sa_syscall_interposer;

/* The assembly calls these, with the number and the first arguments. */
SA_HIDDEN void sa_syscall_note(long number, unsigned long a, unsigned long b, unsigned long c,
                               unsigned long d) __attribute__((used));
SA_HIDDEN void *sa_syscall_enter(long number, unsigned long a, unsigned long b, unsigned long c,
                                 unsigned long d) __attribute__((used));
SA_HIDDEN long sa_syscall_fail(long result) __attribute__((used));

SA_STATIC_ASSERT(NUMBERS == 512 && SA_LOADER_NONE == 1, "as below");

/*
 * The contract of an architecture. syscall calls sa_syscall_enter unless it is known that there is
 * no interposer, and jumps to the result if there is one. Otherwise syscall goes on as
 * sa_direct_syscall, which calls sa_syscall_note for a number in the table, and makes the call.
 * An error ends in sa_syscall_fail. Directives describe the frames to unwinders.
 */
#if defined(__x86_64__)
#define SAVE                                                                                       \
    "pushq %rdi\n\tpushq %rsi\n\tpushq %rdx\n\tpushq %rcx\n\tpushq %r8\n\tpushq %r9\n\t"           \
    "pushq %rax\n\t" /* for the alignment */                                                       \
    ".cfi_adjust_cfa_offset 56\n\t"
#define RESTORE                                                                                    \
    "popq %r9\n\tpopq %r9\n\tpopq %r8\n\tpopq %rcx\n\tpopq %rdx\n\tpopq %rsi\n\tpopq %rdi\n\t"     \
    ".cfi_adjust_cfa_offset -56\n\t"
__asm__(".pushsection .text.unlikely.rare,\"ax\",@progbits\n\t"
        ".balign 16\n\t"
        ".globl syscall\n\t"
        ".type syscall,@function\n"
        "syscall:\n\t"
        ".cfi_startproc\n\t"
        "endbr64\n\t"
        "cmpq $1,sa_syscall_interposer(%rip)\n\t" /* SA_LOADER_NONE */
        "je 1f\n\t" SAVE "call sa_syscall_enter\n\t"
        "movq %rax,%r11\n\t" RESTORE "xorl %eax,%eax\n\t" /* variadic: no vector arguments */
        "testq %r11,%r11\n\t"
        "jz 1f\n\t"
        "jmp *%r11\n\t"
        ".cfi_endproc\n\t"
        ".size syscall,.-syscall\n\t"
        ".globl sa_direct_syscall\n\t"
        ".hidden sa_direct_syscall\n\t"
        ".type sa_direct_syscall,@function\n"
        "sa_direct_syscall:\n\t"
        ".cfi_startproc\n\t"
        "endbr64\n"
        "1: cmpq $512,%rdi\n\t" /* NUMBERS */
        "jae 2f\n\t"
        "leaq sa_syscall_noted(%rip),%rax\n\t"
        "cmpb $0,(%rax,%rdi)\n\t"
        "je 2f\n\t" SAVE "call sa_syscall_note\n\t" RESTORE "2: movq %rdi,%rax\n\t"
        "movq %rsi,%rdi\n\t"
        "movq %rdx,%rsi\n\t"
        "movq %rcx,%rdx\n\t"
        "movq %r8,%r10\n\t"
        "movq %r9,%r8\n\t"
        "movq 8(%rsp),%r9\n\t"
        "syscall\n\t"
        "cmpq $-4095,%rax\n\t" /* SA_SYSCALL_ERRORS */
        "jae 3f\n\t"
        "ret\n"
        "3: movq %rax,%rdi\n\t"
        "jmp sa_syscall_fail\n\t"
        ".cfi_endproc\n\t"
        ".size sa_direct_syscall,.-sa_direct_syscall\n\t"
        ".popsection");
#elif defined(__aarch64__)
#define SAVE                                                                                       \
    "stp x29,x30,[sp,#-80]!\n\t"                                                                   \
    ".cfi_def_cfa_offset 80\n\t"                                                                   \
    ".cfi_offset x29,-80\n\t"                                                                      \
    ".cfi_offset x30,-72\n\t"                                                                      \
    "stp x0,x1,[sp,#16]\n\tstp x2,x3,[sp,#32]\n\tstp x4,x5,[sp,#48]\n\tstr x6,[sp,#64]\n\t"
#define RESTORE                                                                                    \
    "ldp x0,x1,[sp,#16]\n\tldp x2,x3,[sp,#32]\n\tldp x4,x5,[sp,#48]\n\tldr x6,[sp,#64]\n\t"        \
    "ldp x29,x30,[sp],#80\n\t"                                                                     \
    ".cfi_restore x29\n\t"                                                                         \
    ".cfi_restore x30\n\t"                                                                         \
    ".cfi_def_cfa_offset 0\n\t"
__asm__(".pushsection .text.unlikely.rare,\"ax\",%progbits\n\t"
        ".balign 16\n\t"
        ".globl syscall\n\t"
        ".type syscall,%function\n"
        "syscall:\n\t"
        ".cfi_startproc\n\t"
        "hint #34\n\t" /* bti c */
        "adrp x9,sa_syscall_interposer\n\t"
        "ldr x9,[x9,#:lo12:sa_syscall_interposer]\n\t"
        "cmp x9,#1\n\t" /* SA_LOADER_NONE */
        "b.eq 1f\n\t" SAVE "bl sa_syscall_enter\n\t"
        "mov x16,x0\n\t" RESTORE "cbz x16,1f\n\t"
        "br x16\n\t"
        ".cfi_endproc\n\t"
        ".size syscall,.-syscall\n\t"
        ".globl sa_direct_syscall\n\t"
        ".hidden sa_direct_syscall\n\t"
        ".type sa_direct_syscall,%function\n"
        "sa_direct_syscall:\n\t"
        ".cfi_startproc\n\t"
        "hint #34\n"
        "1: cmp x0,#512\n\t" /* NUMBERS */
        "b.hs 2f\n\t"
        "adrp x9,sa_syscall_noted\n\t"
        "add x9,x9,#:lo12:sa_syscall_noted\n\t"
        "ldrb w9,[x9,x0]\n\t"
        "cbz w9,2f\n\t" SAVE "bl sa_syscall_note\n\t" RESTORE "2: mov w8,w0\n\t"
        "mov x0,x1\n\t"
        "mov x1,x2\n\t"
        "mov x2,x3\n\t"
        "mov x3,x4\n\t"
        "mov x4,x5\n\t"
        "mov x5,x6\n\t"
        "svc #0\n\t"
        "cmn x0,#4095\n\t" /* SA_SYSCALL_ERRORS */
        "b.cs 3f\n\t"
        "ret\n"
        "3: b sa_syscall_fail\n\t"
        ".cfi_endproc\n\t"
        ".size sa_direct_syscall,.-sa_direct_syscall\n\t"
        ".popsection");
#endif

__attribute__((used)) void *sa_syscall_interposer;

__attribute__((used)) const bool sa_syscall_noted[NUMBERS] = {
    [SYS_mprotect] = true, [SYS_pkey_mprotect] = true, [SYS_madvise] = true, [SYS_mlock] = true,
    [SYS_mlock2] = true,   [SYS_mbind] = true,         [SYS_prctl] = true,   [SYS_seccomp] = true,
};

void sa_syscall_note(long number, unsigned long a, unsigned long b, unsigned long c,
                     unsigned long d)
{
    switch (number) {
    case SYS_mprotect:
        if (c == (PROT_READ | PROT_WRITE))
            return;
        break;
    case SYS_madvise:
        if (!sa_mark_calls_advice_stays((int)c))
            return;
        break;
    case SYS_pkey_mprotect:
    case SYS_mlock:
    case SYS_mlock2:
    case SYS_mbind:
        break;
    case SYS_prctl:
        sa_prctl_note((int)a, b, c, d);
        return;
    case SYS_seccomp: /* without a program, the caller asks what the kernel has */
        if (a == SECCOMP_STRICT || (a == SECCOMP_FILTER && c))
            sa_prctl_filter_comes();
        return;
    default:
        return;
    }
    sa_mark_calls_note(a, b);
}

void *sa_syscall_enter(long number, unsigned long a, unsigned long b, unsigned long c,
                       unsigned long d)
{
    void *next = sa_loader_interposer(&sa_syscall_interposer, "syscall");

    if (next)
        sa_syscall_note(number, a, b, c, d);
    return next;
}

long sa_syscall_fail(long result)
{
    if (sa_loader_relocated()) /* where errno lies is a relocation */
        errno = (int)-result;
    return -1;
}

#endif
