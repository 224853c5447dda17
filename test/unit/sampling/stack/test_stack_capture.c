/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Capture of call stacks: every kind of frame, through libc, on stacks of all kinds, broken chains,
 * threads; and that nothing is allocated.
 */
#include "sampling/stack/stack.h"

#include "sampling/stack/unwind.h"
#include "test/support/cmocka.h"
#include "test/support/stack_frames.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#ifndef SANITIZED
static unsigned allocations; /* atomic */

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t n, size_t bytes);
void *__libc_realloc(void *p, size_t bytes);

/* Also found by the C library and the unwinder, as the program exports them. */
#pragma GCC visibility push(default)
void *malloc(size_t bytes)
{
    __atomic_fetch_add(&allocations, 1, __ATOMIC_RELAXED);
    return __libc_malloc(bytes);
}

void *calloc(size_t n, size_t bytes)
{
    __atomic_fetch_add(&allocations, 1, __ATOMIC_RELAXED);
    return __libc_calloc(n, bytes);
}

void *realloc(void *p, size_t bytes)
{
    __atomic_fetch_add(&allocations, 1, __ATOMIC_RELAXED);
    return __libc_realloc(p, bytes);
}
#pragma GCC visibility pop
#endif

/* Every kind of frame that compilers make, below every other. */
static void test_stack_capture_passes_every_kind_of_frame(void **state)
{
    (void)state;
    for (unsigned depth = 0; depth < 40; depth++) {
        stack_frames_start(NULL);
        stack_frames_next(depth);
        assert_int_equal(expected.n, depth + 2);
        stack_frames_expect();
        assert_true(captured.n > expected.n); /* main at least */
    }
}

/* Deeper stacks are cut at the outer end, at 64 and at any other number. */
static void test_stack_capture_cuts_deep_stacks(void **state)
{
    struct stack s;

    (void)state;
    stack_frames_next(200);
    assert_int_equal(captured.n, SA_STACK_MAX);
    stack_frames_expect();
    for (unsigned max = 0; max < 4; max++) {
        memset(&s, 0, sizeof(s));
        stack_frames_inner(__builtin_dwarf_cfa(), 1, &s, max);
        assert_int_equal(s.n, max);
        assert_int_equal(s.pc[max], 0);
    }
}

/* --- through code of libc's
 * -------------------------------------------------------------------- */

static int compare_capture(const void *a, const void *b)
{
    if (!captured.n) {
        ENTER;
        capture();
        BARRIER;
    }
    return *(const int *)a - *(const int *)b;
}

NOINLINE static void sort(void)
{
    int numbers[100];

    ENTER;
    for (int i = 0; i < 100; i++)
        numbers[i] = i * 37 % 100;
    qsort(numbers, 100, sizeof(int), compare_capture);
    BARRIER;
}

/* Frames of libc lie between: our callback first, our caller of qsort behind them. */
static void test_stack_capture_passes_libc(void **state)
{
    (void)state;
    sort();
    assert_int_equal(captured.pc[0], expected.pc[2]);
    assert_int_equal(captured.pc[1], expected.pc[1]);
    assert_true(stack_frames_contain(&captured, expected.pc[0]));
    assert_true(captured.n > 5);
}

/* --- stacks of all kinds --- */

static void *thread_main(void *arg)
{
    (void)arg;
    ENTER;
    capture();
    BARRIER;
    return NULL;
}

/* A thread's stack ends where the thread started. */
static void test_stack_capture_ends_with_the_thread(void **state)
{
    pthread_t thread;

    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, thread_main, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    stack_frames_expect();
    assert_in_range(captured.n, 3, 6);
}

static ucontext_t main_context, coroutine_context;

static void coroutine(void)
{
    ENTER;
    stack_frames_next(20);
    swapcontext(&coroutine_context, &main_context);
    abort();
}

/* A coroutine's stack is just memory; it ends where the coroutine started. */
static void test_stack_capture_serves_coroutines(void **state)
{
    char *stack = mmap(NULL, 1 << 17, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    (void)state;
    assert_true(stack != MAP_FAILED);
    getcontext(&coroutine_context);
    coroutine_context.uc_stack.ss_sp = stack;
    coroutine_context.uc_stack.ss_size = 1 << 17;
    makecontext(&coroutine_context, coroutine, 0);
    swapcontext(&main_context, &coroutine_context);
    stack_frames_expect();
    assert_in_range(captured.n, expected.n, expected.n + 1);
    munmap(stack, 1 << 17);
}

/* In the child of vfork, which runs on the memory of its parent. */
static void test_stack_capture_serves_vfork(void **state)
{
    pid_t child;
    int status;

    (void)state;
    child = vfork();
    if (child == 0) {
        capture();
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    stack_frames_expect();
}

#if defined(__x86_64__) && !defined(SANITIZED)
/* Code of a just-in-time compiler: nothing describes it, the walk ends there. */
static void test_stack_capture_ends_at_unknown_code(void **state)
{
    static const unsigned char code[] = {
        0x48, 0x83, 0xec, 0x08,            /* sub $8, %rsp */
        0xff, 0xd7,                        /* call *%rdi */
        0x48, 0x83, 0xc4, 0x08, 0xc3, 0x90 /* add $8, %rsp; ret */
    };
    char *page =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void (*run)(void (*)(void));

    (void)state;
    assert_true(page != MAP_FAILED);
    memcpy(page, code, sizeof(code));
    memcpy(&run, &page, sizeof(run));
    run(capture);
    assert_int_equal(captured.n, 1);
    assert_int_equal(captured.pc[0], (uintptr_t)page + 6);
    munmap(page, 4096);
}
#endif

#ifdef SA_UNWIND_FAST
/*
 * Code that says its frame is found by rbp, and puts a number of the caller's choice there: broken
 * chains. call_broken(rbp, fn) calls fn; broken_return(address) pushes an address to which nobody
 * will return.
 */
__asm__(".text\n"
        ".type call_broken, @function\n"
        "call_broken:\n"
        ".cfi_startproc\n"
        "push %rbp\n"
        ".cfi_def_cfa_offset 16\n"
        ".cfi_offset 6, -16\n"
        "mov %rdi, %rbp\n"
        ".cfi_def_cfa_register 6\n"
        "call *%rsi\n"
        "call_broken_return:\n"
        "pop %rbp\n"
        ".cfi_def_cfa 7, 8\n"
        "ret\n"
        ".cfi_endproc\n"
        ".size call_broken, .-call_broken\n"
        ".type broken_return, @function\n"
        "broken_return:\n"
        ".cfi_startproc\n"
        "push %rdi\n"
        "call *%rsi\n"
        "broken_return_return:\n"
        "pop %rdi\n"
        "ret\n"
        ".cfi_endproc\n"
        ".size broken_return, .-broken_return\n");

void call_broken(uintptr_t rbp, void (*fn)(void));
void broken_return(uintptr_t address, void (*fn)(void));
extern char call_broken_return[], broken_return_return[];

/* Pointers to nowhere, below, above, not aligned: the walk ends and nothing is read outside of the
 * stack. */
static void test_stack_capture_survives_broken_chains(void **state)
{
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    const uintptr_t wrong[] = {0,
                               1,
                               16,
                               4096,
                               here - 65536,
                               here + 1,
                               here + ((uintptr_t)1 << 29),
                               here + ((uintptr_t)1 << 40),
                               (uintptr_t)&expected,
                               0x8000000000000000,
                               UINTPTR_MAX,
                               UINTPTR_MAX - 7,
                               UINTPTR_MAX - 15};

    (void)state;
    for (unsigned i = 0; i < TEST_COUNT(wrong); i++) {
        captured.n = 0;
        call_broken(wrong[i], capture);
        assert_int_equal(captured.n, 1);
        assert_int_equal(captured.pc[0], (uintptr_t)call_broken_return);
        captured.n = 0;
        broken_return(wrong[i], capture);
        assert_int_equal(captured.pc[0], (uintptr_t)broken_return_return);
        if (captured.n > 1)
            assert_int_equal(captured.pc[1], wrong[i]);
        assert_in_range(captured.n, 1, 2);
    }
}
#endif

#ifndef SANITIZED
/* Nothing is allocated, the first time included. */
static void test_stack_capture_allocates_nothing(void **state)
{
    unsigned before = allocations;
    struct stack s;

    (void)state;
    free(strdup("counted where others allocate, too"));
    assert_int_equal(allocations, ++before);
    stack_frames_next(50);
    s.n = sa_unwind_libgcc(__builtin_dwarf_cfa(), s.pc, MOST);
    assert_true(captured.n > 50 && s.n > 1);
    assert_int_equal(allocations, before);
}
#endif

static void *capture_in_thread(void *arg)
{
    struct stack s;

    for (int i = 0; i < 20000; i++) {
        stack_frames_inner(__builtin_dwarf_cfa(), (unsigned)i % 8, &s, SA_STACK_MAX);
        if (s.n < 1 || s.n > 6)
            *(bool *)arg = true;
    }
    return NULL;
}

/* Threads share what is remembered of the code. */
static void test_stack_capture_serves_threads(void **state)
{
    pthread_t threads[4];
    bool failed[4] = {false};

    (void)state;
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, capture_in_thread, &failed[i]), 0);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_false(failed[i]);
    }
}

static double time_of(unsigned (*way)(const void *, uintptr_t *, unsigned))
{
    enum { ROUNDS = 20000 };
    struct timespec from, to;
    uintptr_t pc[SA_STACK_MAX];

    clock_gettime(CLOCK_MONOTONIC, &from);
    for (int i = 0; i < ROUNDS; i++)
        way(__builtin_dwarf_cfa(), pc, SA_STACK_MAX);
    clock_gettime(CLOCK_MONOTONIC, &to);
    return ((double)(to.tv_sec - from.tv_sec) * 1e9 + (double)(to.tv_nsec - from.tv_nsec)) / ROUNDS;
}

NOINLINE static void time_below(unsigned depth)
{
    if (depth)
        time_below(depth - 1);
    else
        print_message("# a stack 20 deep: %.0f ns, libgcc %.0f ns\n", time_of(sa_stack_capture),
                      time_of(sa_unwind_libgcc));
    BARRIER;
}

/* No bound: machines differ. */
static void test_stack_capture_says_how_fast_it_is(void **state)
{
    (void)state;
    time_below(15);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#ifndef SANITIZED
        cmocka_unit_test_setup(test_stack_capture_allocates_nothing, stack_frames_start),
#endif
        cmocka_unit_test_setup(test_stack_capture_passes_every_kind_of_frame, stack_frames_start),
        cmocka_unit_test_setup(test_stack_capture_cuts_deep_stacks, stack_frames_start),
        cmocka_unit_test_setup(test_stack_capture_passes_libc, stack_frames_start),
#if defined(__x86_64__) && !defined(SANITIZED)
        cmocka_unit_test_setup(test_stack_capture_ends_at_unknown_code, stack_frames_start),
#endif
        cmocka_unit_test_setup(test_stack_capture_ends_with_the_thread, stack_frames_start),
        cmocka_unit_test_setup(test_stack_capture_serves_coroutines, stack_frames_start),
        cmocka_unit_test_setup(test_stack_capture_serves_vfork, stack_frames_start),
#ifdef SA_UNWIND_FAST
        cmocka_unit_test_setup(test_stack_capture_survives_broken_chains, stack_frames_start),
#endif
        cmocka_unit_test_setup(test_stack_capture_serves_threads, stack_frames_start),
        cmocka_unit_test_setup(test_stack_capture_says_how_fast_it_is, stack_frames_start),
    };

    return cmocka_run_group_tests_name("stack_capture", tests, NULL, NULL);
}
