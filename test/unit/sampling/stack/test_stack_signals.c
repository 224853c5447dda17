/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Capture in signal handlers: on any stack, at any moment, while the interrupted code captures too.
 * What was interrupted in the middle of a function only libgcc can tell; our own walk is compared
 * with it.
 */
#include "sampling/stack/stack.h"

#include "sampling/stack/unwind.h"
#include "test/support/cmocka.h"
#include "test/support/stack_frames.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

/* --- signals --- */

static void on_signal(int number)
{
    (void)number;
    ENTER;
    capture();
    BARRIER;
}

NOINLINE static void raise_below(void)
{
    ENTER;
    raise(SIGUSR1);
    BARRIER;
}

static void handle(int number, void (*handler)(int), int flags)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};

    sigaction(number, &action, NULL);
}

static void check_signal(int flags)
{
    handle(SIGUSR1, on_signal, flags);
    raise_below();
    handle(SIGUSR1, SIG_DFL, 0);
    assert_int_equal(expected.n, 3);
    assert_int_equal(captured.pc[0], expected.pc[2]); /* into the handler */
#ifndef SANITIZED                                     /* which call handlers from their own */
    assert_int_equal(captured.pc[1], expected.pc[1]); /* into the trampoline */
#endif
    assert_true(
        stack_frames_contain(&captured, expected.pc[0])); /* of the code that was interrupted */
}

/* The walk goes on below the handler. */
static void test_stack_signals_passes_signals(void **state)
{
    (void)state;
    check_signal(0);
}

static void use_stack(void *stack, size_t bytes)
{
    stack_t s = {.ss_sp = stack, .ss_size = bytes, .ss_flags = stack ? 0 : SS_DISABLE};

    assert_int_equal(sigaltstack(&s, NULL), 0);
}

/* The handler has a stack of its own, below the other in memory. */
static void test_stack_signals_passes_signal_stacks(void **state)
{
    static char stack[1 << 16];

    (void)state;
    use_stack(stack, sizeof(stack));
    check_signal(SA_ONSTACK);
    use_stack(NULL, 0);
}

static void *signal_thread(void *stack)
{
    use_stack(stack, 1 << 16);
    handle(SIGUSR1, on_signal, SA_ONSTACK);
    raise_below();
    handle(SIGUSR1, SIG_DFL, 0);
    use_stack(NULL, 0);
    return NULL;
}

/* The handler's stack is above that of the thread: the walk jumps downwards, and goes on. */
static void test_stack_signals_jumps_down_to_the_thread(void **state)
{
    char stack[1 << 16];
    pthread_t thread;

    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, signal_thread, stack), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(captured.pc[0], expected.pc[2]);
    assert_true(stack_frames_contain(&captured, expected.pc[0]));
}

#if defined(__x86_64__) && !defined(SANITIZED)
extern char fault_address[];

static void on_fault(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)info;
    capture();
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] += 2;
}

NOINLINE static void fault(void)
{
    ENTER;
    __asm__ volatile("fault_address: ud2" ::: "memory");
}

/* The interrupted address itself is not a return address: it is stored plus one. */
static void test_stack_signals_marks_interrupted_code(void **state)
{
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};

    (void)state;
    sigaction(SIGILL, &action, NULL);
    fault();
    handle(SIGILL, SIG_DFL, 0);
    assert_true(captured.n > 4);
    assert_int_equal(captured.pc[2], (uintptr_t)fault_address + 1);
    assert_int_equal(captured.pc[3], expected.pc[0]);
}

/* What ends a handler here is not described, as in programs that make the system call
 * themselves. */
__asm__(".text\n"
        "nop\n"
        ".type plain_restorer, @function\n"
        "plain_restorer:\n"
        "mov $15, %rax\n"
        "syscall\n"
        ".size plain_restorer, .-plain_restorer\n");

void plain_restorer(void);

/* As the kernel has it. */
struct kernel_action {
    void (*handler)(int);
    unsigned long flags;
    void (*restorer)(void);
    unsigned long mask;
};

/* libgcc knows such code by its bytes, so the walk goes on. */
static void test_stack_signals_passes_plain_restorers(void **state)
{
    struct kernel_action action = {on_signal, 0x04000000 /* SA_RESTORER */, plain_restorer, 0};

    (void)state;
    assert_int_equal(syscall(SYS_rt_sigaction, SIGUSR1, &action, NULL, sizeof(action.mask)), 0);
    raise_below();
    handle(SIGUSR1, SIG_DFL, 0);
    assert_int_equal(captured.pc[0], expected.pc[2]);
    assert_int_equal(captured.pc[1], (uintptr_t)plain_restorer);
    assert_true(stack_frames_contain(&captured, expected.pc[0]));
}
#endif

/* --- at any moment --- */

static struct stack outermost; /* of the thread that is interrupted */
static volatile sig_atomic_t signals, signal_failures, signal_other;
static uintptr_t failed_pc;

/* In a stack of check_interrupted: behind the handler and what it returns to. */
#define INTERRUPTED 2

/*
 * Whether what was interrupted is "lea -8(%r10), %rsp" or the "ret" behind it, the end of functions
 * that align their stack. gcc's tables are wrong about rbp there: libgcc loses a frame if the
 * caller's is found by rbp (doc/stacks.md).
 */
static bool leaves_aligned(const struct stack *s)
{
    static const uint8_t code[] = {0x49, 0x8d, 0x62, 0xf8, 0xc3};
    const uint8_t *at = s->n > INTERRUPTED ? (const uint8_t *)s->pc[INTERRUPTED] - 1 : NULL;

    return at && (memcmp(at, code, sizeof(code)) == 0 ||
                  (*at == code[4] && memcmp(at - 4, code, sizeof(code)) == 0));
}

/* Both ways agree, whatever was interrupted, and reach the start of the program. */
NOINLINE static void check_interrupted(void)
{
    static struct stack own, libgcc; /* handlers do not nest */
    bool may_lose;
    unsigned n = 0;

    libgcc.n = sa_unwind_libgcc(__builtin_dwarf_cfa(), libgcc.pc, MOST);
    may_lose = leaves_aligned(&libgcc);
#ifdef SA_UNWIND_FAST
    if (sa_unwind_fast(__builtin_dwarf_cfa(), false, own.pc, MOST, &n)) {
        if (!(may_lose && libgcc.n < n) &&
            (n != libgcc.n || memcmp(own.pc, libgcc.pc, n * sizeof(*own.pc)) != 0)) {
            signal_failures++;
            failed_pc = libgcc.n > INTERRUPTED ? libgcc.pc[INTERRUPTED] : 0;
        }
    } else {
        signal_other++;
    }
#endif
    n = sa_stack_capture(__builtin_dwarf_cfa(), own.pc, MOST);
    if ((n != libgcc.n && !(may_lose && libgcc.n < n)) || n < outermost.n ||
        own.pc[n - 1] != outermost.pc[outermost.n - 1])
        signal_failures++;
    signals++;
}

static void on_timer(int number)
{
    int saved = errno;

    (void)number;
    check_interrupted();
    errno = saved;
}

static int compare_ints(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

NOINLINE static void busy(void) /* calls that go through the PLT, libc and the vDSO */
{
    int numbers[50];
    char text[64];
    struct timespec t;

    for (int i = 0; i < 50; i++)
        numbers[i] = i * 37 % 50;
    qsort(numbers, 50, sizeof(int), compare_ints);
    snprintf(text, sizeof(text), "%d %s %.3f", numbers[7], "text", 1.5);
    clock_gettime(CLOCK_MONOTONIC, &t);
    free(malloc(100));
    BARRIER;
}

/* A profiler's signal, 1000 times a second, that captures, while the program captures too. */
static void test_stack_signals_serves_profilers(void **state)
{
    struct itimerval on = {{0, 1000}, {0, 1000}}, off = {{0, 0}, {0, 0}};
    struct stack s;
    struct timespec from, now;

    (void)state;
    stack_frames_inner(__builtin_dwarf_cfa(), 2, &outermost, MOST);
    signals = signal_failures = 0;
    clock_gettime(CLOCK_MONOTONIC, &from);
    handle(SIGALRM, on_timer, SA_RESTART);
    setitimer(ITIMER_REAL, &on, NULL);
    do {
        stack_frames_start(NULL);
        stack_frames_next(30);
        assert_int_equal(expected.n, 32);
        stack_frames_expect();
        stack_frames_inner(__builtin_dwarf_cfa(), 2, &s, MOST);
        assert_int_equal(s.n, outermost.n);
        assert_int_equal(s.pc[s.n - 1], outermost.pc[outermost.n - 1]);
        busy();
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while (now.tv_sec - from.tv_sec < 2);
    setitimer(ITIMER_REAL, &off, NULL);
    handle(SIGALRM, SIG_DFL, 0);
    print_message("# %d signals, %d stacks that only libgcc walks\n", (int)signals,
                  (int)signal_other);
    assert_true(signals > 20); /* of 2000; a busy machine merges some */
    if (signal_failures)
        print_message("# failed at %#lx\n", (unsigned long)failed_pc);
    assert_int_equal(signal_failures, 0);
}

#if defined(SA_UNWIND_FAST) && !defined(SANITIZED)
static volatile sig_atomic_t single_step;

static void on_step(int number, siginfo_t *info, void *context)
{
    greg_t *flags = &((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL];

    (void)number;
    (void)info;
    if (single_step)
        check_interrupted();
    *flags = single_step ? *flags | 0x100 : *flags & ~(greg_t)0x100;
}

/* The same after every single instruction: the middle of prologues, epilogues, PLT entries. */
static void test_stack_signals_agrees_at_every_instruction(void **state)
{
    struct sigaction action = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO};

    (void)state;
    stack_frames_inner(__builtin_dwarf_cfa(), 2, &outermost, MOST);
    signals = signal_failures = signal_other = 0;
    sigaction(SIGTRAP, &action, NULL);
    single_step = 1;
    raise(SIGTRAP);
    busy();
    stack_frames_next(20);
    single_step = 0;
    BARRIER;
    handle(SIGTRAP, SIG_DFL, 0);
    print_message("# %d instructions, at %d only libgcc walks\n", (int)signals, (int)signal_other);
    if (signal_failures)
        print_message("# failed at %#lx\n", (unsigned long)failed_pc);
    assert_true(signals > 5000);
    assert_int_equal(signal_failures, 0);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_stack_signals_passes_signals, stack_frames_start),
        cmocka_unit_test_setup(test_stack_signals_passes_signal_stacks, stack_frames_start),
        cmocka_unit_test_setup(test_stack_signals_jumps_down_to_the_thread, stack_frames_start),
#if defined(__x86_64__) && !defined(SANITIZED)
        cmocka_unit_test_setup(test_stack_signals_marks_interrupted_code, stack_frames_start),
        cmocka_unit_test_setup(test_stack_signals_passes_plain_restorers, stack_frames_start),
#endif
        cmocka_unit_test_setup(test_stack_signals_serves_profilers, stack_frames_start),
#if defined(SA_UNWIND_FAST) && !defined(SANITIZED)
        cmocka_unit_test_setup(test_stack_signals_agrees_at_every_instruction, stack_frames_start),
#endif
    };

    return cmocka_run_group_tests_name("stack_signals", tests, NULL, NULL);
}
