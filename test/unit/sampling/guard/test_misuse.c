/* SPDX-License-Identifier: Apache-2.0 */
/* Reports of misuse of guarded blocks and of blocks in the sample quarantine. All other faults
 * behave as without the library: handlers that were installed before, the default action, and
 * signals that were sent. Tests run in children, most of which end. */
#include "alloc/base/attrs.h"
#include "alloc/front/mismatch.h"
#include "alloc/os/thread.h"
#include "sampling/guard/misuse.h"
#include "sampling/stack/loaded_object.h"
#include "test/support/child.h"
#include "test/support/guards.h"
#include "test/support/start.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static void no_inline_write(volatile char *p)
{
    *p = 1;
}

static char no_inline_read(const volatile char *p)
{
    return *p;
}

static void (*volatile write_byte)(volatile char *p) = no_inline_write;
static char (*volatile read_byte)(const volatile char *p) = no_inline_read;

/* A guarded block at the left or the right end of its page. */
static char *guarded_at(size_t size, bool left)
{
    for (int i = 0; i < 60; i++) {
        char *p = sa_front_alloc(size, 1, false);

        CHILD_CHECK(is_guarded(p));
        if (((uintptr_t)p == page_of(p)) == left)
            return p;
    }
    CHILD_CHECK(!"a block on that side");
    return NULL;
}

/* A misuse and what is said first. */
struct misuse {
    const char *text;
    void (*run)(const struct misuse *m);
    size_t size;
    int offset;
    int signal;
};

static char *freed(const struct misuse *m)
{
    char *p = sa_front_alloc(m->size, 1, false);

    sa_front_free(p);
    return p;
}

static void use(const struct misuse *m)
{
    read_byte(freed(m) + m->offset);
}

static void use_write(const struct misuse *m)
{
    write_byte(freed(m) + m->offset);
}

static void right(const struct misuse *m)
{
    write_byte(guarded_at(m->size, false) + m->size + m->offset);
}

static void left(const struct misuse *m)
{
    read_byte(guarded_at(m->size, true) + m->offset);
}

static void right_and_free(const struct misuse *m)
{
    char *p = guarded_at(m->size, false);

    write_byte(p + m->offset);
    sa_front_free(p);
}

static void left_and_free(const struct misuse *m)
{
    char *p = guarded_at(m->size, true);

    write_byte(p + m->offset);
    sa_front_realloc(p, m->size + 1);
}

static void free_twice(const struct misuse *m)
{
    sa_front_free(freed(m) + m->offset);
}

static void free_inside(const struct misuse *m)
{
    sa_front_free((char *)sa_front_alloc(m->size, 1, false) + m->offset);
}

static void realloc_freed(const struct misuse *m)
{
    sa_front_realloc(freed(m), 1);
}

static void size_of_freed(const struct misuse *m)
{
    sa_mismatch_on = true;
    sa_front_size(freed(m), "malloc_usable_size");
}

/* Slots at the end of the pool that nobody has had: the first one allocates. */
static void unused_slot(const struct misuse *m)
{
    char *p = sa_front_alloc(m->size, 1, false);
    struct sa_lookup found;

    for (uintptr_t at = page_of(p); sa_guarded_find(at, &found); at += SA_PAGE_BYTES)
        if (found.state == SA_LOOKUP_NOTHING)
            read_byte((const char *)at);
}

static void child_misuse(void *arg)
{
    const struct misuse *m = arg;

    signal(SIGSEGV, SIG_DFL); /* cmocka has one */
    sa_thread.caller = __builtin_dwarf_cfa();
    m->run(m);
}

static void test_misuse_is_named(void **state)
{
    static const struct misuse misuses[] = {
        {"read at offset 0 of a freed block of 100 bytes", use, 100, 0, SIGSEGV},
        {"read at offset 8191 of a freed block of 8192 bytes", use, 8192, 8191, SIGSEGV},
        {"write at offset 17 of a freed block of 20 bytes", use_write, 20, 17, SIGSEGV},
        {"write at offset 7 of a freed block of 100000 bytes", use_write, 100000, 7, SIGSEGV},
        {"read at offset 3000000 of a freed block of 4000000 bytes", use, 4000000, 3000000,
         SIGSEGV},
        {"write 0 bytes behind the end of a block of 64 bytes", right, 64, 0, SIGSEGV},
        {"write 16 bytes behind the end of a block of 100 bytes", right, 100, 16, SIGSEGV},
        {"read 1 bytes before the start of a block of 100 bytes", left, 100, -1, SIGSEGV},
        {"read 16 bytes before the start of a block of 64 bytes", left, 64, -16, SIGSEGV},
        {"written, 0 bytes behind the end of a block of 100 bytes", right_and_free, 100, 100, 0},
        {"written, 1 bytes before the start of a block of 100 bytes", right_and_free, 100, -1, 0},
        {"written, 16 bytes before the start of a block of 64 bytes", right_and_free, 64, -16, 0},
        {"written, 0 bytes behind the end of a block of 64 bytes", left_and_free, 64, 64, 0},
        {"written, 16 bytes behind the end of a block of 100 bytes", left_and_free, 100, 116, 0},
        {"double free: 0x", free_twice, 100, 0, SIGABRT},
        {"double free: 0x", free_twice, 0, 0, SIGABRT},
        {"double free: 0x", free_twice, 100000, 0, SIGABRT},
        {"double free: 0x", free_twice, 3000000, 0, SIGABRT},
        {"lies in memory that is free, at offset 8 of", free_twice, 100, 8, SIGABRT},
        {"is inside a block of 100 bytes, not its start", free_inside, 100, 1, SIGABRT},
        {"is inside a block of 100 bytes, not its start", free_inside, 100, 64, SIGABRT},
        {"is not the start of a block; 4 bytes before the start", free_inside, 100, -4, SIGABRT},
        {"invalid realloc: 0x", realloc_freed, 100, 0, SIGABRT},
        {"invalid realloc: 0x", realloc_freed, 100000, 0, SIGABRT},
        {"malloc_usable_size: 0x", size_of_freed, 100, 0, 0},
        {"read of guarded memory that holds no block", unused_slot, 100, 0, SIGSEGV},
    };

    (void)state;
    for (size_t i = 0; i < TEST_COUNT(misuses); i++) {
        const struct misuse *m = &misuses[i];
        struct test_child child = test_child_run(child_misuse, (void *)m);
        const char *line = strstr(child.text, m->text), *end = strchr(child.text, '\n');

        if (child.signal != m->signal || !line || line > end)
            print_error("expected \"%s\" and signal %d: code %d, signal %d\n%s\n", m->text,
                        m->signal, child.exit_code, child.signal, child.text);
        assert_int_equal(child.signal, m->signal);
        assert_true(line && line < end);
        assert_memory_equal(child.text, "salloc: ", 8);
        assert_true(!!strstr(child.text, "  allocated by thread ") == (m->run != unused_slot));
        assert_true(m->run == unused_slot || m->run == right || m->run == left ||
                    m->run == right_and_free || m->run == left_and_free || m->run == free_inside ||
                    strstr(child.text, "  freed by thread "));
    }
}

/* --- handlers --- */

static volatile sig_atomic_t calls;
static void *volatile seen_address;
static volatile int seen_code;
static volatile uintptr_t seen_frame;
static volatile bool seen_masked, seen_blocked;
static char alternate[64 * 1024];

static void earlier_handler(int number, siginfo_t *info, void *context)
{
    sigset_t mask;

    (void)number;
    (void)context;
    calls++;
    seen_address = info->si_addr;
    seen_code = info->si_code;
    seen_frame = (uintptr_t)__builtin_frame_address(0);
    sigprocmask(SIG_SETMASK, NULL, &mask);
    seen_masked = sigismember(&mask, SIGUSR1);
    seen_blocked = sigismember(&mask, SIGSEGV);
    if (calls == 2)
        _exit(42);
    if (seen_code > 0 && !sa_page_heap_sampled_address((uintptr_t)info->si_addr))
        mprotect((void *)sa_align_down((uintptr_t)info->si_addr, sa_vm.page_bytes),
                 sa_vm.page_bytes, PROT_READ | PROT_WRITE);
}

static void earlier_plain(int number)
{
    calls++;
    CHILD_CHECK(number == SIGSEGV);
    _exit(43);
}

static void install(void (*handler)(int number, siginfo_t *info, void *context), int flags)
{
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = flags | SA_SIGINFO};
    stack_t stack = {.ss_sp = alternate, .ss_size = sizeof(alternate)};

    sigaddset(&action.sa_mask, SIGUSR1);
    CHILD_CHECK(sigaltstack(&stack, NULL) == 0);
    CHILD_CHECK(sigaction(SIGSEGV, &action, NULL) == 0);
}

static bool on_alternate(uintptr_t frame)
{
    return frame - (uintptr_t)alternate < sizeof(alternate);
}

static char *closed_pages(size_t bytes)
{
    char *p = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    CHILD_CHECK(p != MAP_FAILED);
    return p;
}

/* A page that faults until the handler makes it accessible. */
static char *closed_page(void)
{
    return closed_pages(sa_vm.page_bytes);
}

static void guard_one(void)
{
    sa_thread.caller = __builtin_dwarf_cfa();
    sa_front_free(sa_front_alloc(100, 1, false));
}

/* The program's own faults and signals reach its handler as if we were not there. */
static void passes_on(void *arg)
{
    int flags = *(const int *)arg;
    char *p = closed_page();
    struct sigaction now;

    install(earlier_handler, flags);
    guard_one();
    write_byte(p + 5);
    CHILD_CHECK(calls == 1 && seen_address == p + 5 && seen_code == SEGV_ACCERR);
    CHILD_CHECK(on_alternate(seen_frame) == !!(flags & SA_ONSTACK));
    /* A sanitizer calls handlers from one of its own, with signals blocked as it likes. */
    CHILD_CHECK(SA_TSAN || (seen_masked && seen_blocked == !(flags & SA_NODEFER)));
    CHILD_CHECK(p[5] == 1);
    sigaction(SIGSEGV, NULL, &now);
    CHILD_CHECK((now.sa_handler == SIG_DFL) == !!(flags & SA_RESETHAND));
    if (flags & SA_RESETHAND)
        return;
    calls = 0;
    raise(SIGSEGV);
    CHILD_CHECK(calls == 1 && seen_code <= 0);
}

static void test_misuse_leaves_faults_to_earlier_handlers(void **state)
{
    static const int flags[] = {0, SA_ONSTACK, SA_NODEFER, SA_RESETHAND, SA_ONSTACK | SA_RESETHAND};

    (void)state;
    for (size_t i = 0; i < TEST_COUNT(flags); i++)
        test_child_passes(passes_on, (void *)&flags[i]);
}

/* An earlier handler runs after the report, too. */
static void passes_on_after_report(void *unused)
{
    char *p;

    (void)unused;
    install(earlier_handler, SA_ONSTACK);
    calls = 1;
    p = sa_front_alloc(100, 1, false);
    sa_front_free(p);
    read_byte(p);
}

static void passes_on_to_plain_handler(void *unused)
{
    (void)unused;
    signal(SIGSEGV, earlier_plain);
    guard_one();
    write_byte((char *)8);
}

static void test_misuse_reports_before_earlier_handlers(void **state)
{
    struct test_child child = test_child_run(passes_on_after_report, NULL);

    (void)state;
    assert_int_equal(child.exit_code, 42);
    assert_non_null(strstr(child.text, "use after free"));
    child = test_child_run(passes_on_to_plain_handler, NULL);
    assert_int_equal(child.exit_code, 43);
    assert_string_equal(child.text, "");
}

/* Without a handler: the default action, and not a word. */
static void own_fault(void *arg)
{
    signal(SIGSEGV, SIG_DFL);
    guard_one();
    if (arg)
        write_byte(arg);
    else
        write_byte(closed_page());
}

static void own_signal(void *unused)
{
    (void)unused;
    signal(SIGSEGV, SIG_DFL);
    guard_one();
    kill(getpid(), SIGSEGV);
    for (;;)
        pause();
}

/* A sent signal is ignored, a fault is not. Programs that this one starts inherit that. */
static void ignored(void *arg)
{
    struct sigaction now;

    signal(SIGSEGV, SIG_IGN);
    guard_one();
    sigaction(SIGSEGV, NULL, &now);
    CHILD_CHECK(now.sa_handler == SIG_IGN);
    kill(getpid(), SIGSEGV);
    if (arg)
        write_byte(closed_page());
}

/* The stack is at its end: no handler can run without another one. */
static int overflow_stack(int depth)
{
    volatile char room[4096];

    room[0] = (char)depth;
    return depth < 1 << 30 ? overflow_stack(depth + 1) + room[0] : 0;
}

static void stack_overflow(void *unused)
{
    (void)unused;
    signal(SIGSEGV, SIG_DFL);
    guard_one();
    overflow_stack(0);
}

static void test_misuse_leaves_the_default_action(void **state)
{
    static char *const addresses[] = {NULL, (char *)8, (char *)0x7ffffffffff0};
    struct test_child child;

    (void)state;
    for (size_t i = 0; i < TEST_COUNT(addresses); i++) {
        child = test_child_run(own_fault, addresses[i]);
        assert_int_equal(child.signal, SIGSEGV);
        assert_string_equal(child.text, "");
    }
    child = test_child_run(own_signal, NULL);
    assert_int_equal(child.signal, SIGSEGV);
    test_child_passes(ignored, NULL);
    child = test_child_run(ignored, "a fault");
    assert_int_equal(child.signal, SIGSEGV);
    child = test_child_run(stack_overflow, NULL);
    assert_int_equal(child.signal, SIGSEGV);
    assert_string_equal(child.text, "");
}

/* Of an alternate stack, beside what the kernel puts there. Sanitizers add frames and calls. The
 * walk of libgcc, in place of the fast one, needs from 4096 to 4608 bytes. */
#define HANDLER_ROOM (SA_ASAN || SA_TSAN ? 32768 : SA_FIND_OBJECT ? 4096 : 5120)

/* A report on a thread with the smallest alternate stack, which ends at an inaccessible page. */
static void *use_after_free(void *arg)
{
    stack_t stack = {.ss_size = (size_t)sysconf(_SC_MINSIGSTKSZ) + HANDLER_ROOM};

    stack.ss_sp = closed_pages(sa_vm.page_bytes + stack.ss_size) + sa_vm.page_bytes;
    CHILD_CHECK(mprotect(stack.ss_sp, stack.ss_size, PROT_READ | PROT_WRITE) == 0);
    CHILD_CHECK(sigaltstack(&stack, NULL) == 0);
    read_byte(arg);
    return NULL;
}

static void small_stacks(void *unused)
{
    pthread_t thread;

    (void)unused;
    signal(SIGSEGV, SIG_DFL);
    sa_thread.caller = __builtin_dwarf_cfa();
    CHILD_CHECK(
        pthread_create(&thread, NULL, use_after_free, freed(&(struct misuse){.size = 100})) == 0);
    pthread_join(thread, NULL);
}

static void test_misuse_is_reported_from_small_stacks(void **state)
{
    struct test_child child = test_child_run(small_stacks, NULL);

    (void)state;
    assert_int_equal(child.signal, SIGSEGV);
    assert_non_null(strstr(child.text, "use_after_free"));
    assert_non_null(strstr(child.text, "  freed by thread "));
    assert_non_null(strstr(child.text, "  allocated by thread "));
}

/* Of threads that fault at once, each report is whole. */
static void *fault_at_once(void *arg)
{
    read_byte(arg);
    return NULL;
}

static void threads_fault(void *unused)
{
    pthread_t threads[4];
    char *p[4];

    (void)unused;
    signal(SIGSEGV, SIG_DFL);
    sa_thread.caller = __builtin_dwarf_cfa();
    for (int i = 0; i < 4; i++)
        p[i] = sa_front_alloc(100, 1, false);
    for (int i = 0; i < 4; i++)
        sa_front_free(p[i]);
    for (int i = 0; i < 4; i++)
        CHILD_CHECK(pthread_create(&threads[i], NULL, fault_at_once, p[i]) == 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
}

static void test_misuse_by_threads_at_once(void **state)
{
    struct test_child child = test_child_run(threads_fault, NULL);
    const char *at = child.text;

    (void)state;
    assert_int_equal(child.signal, SIGSEGV);
    at = strstr(at, "use after free");
    assert_non_null(at);
    for (const char *next; (next = strstr(at + 1, "use after free")); at = next) {
        const char *allocated = strstr(at, "  allocated by thread ");

        assert_true(allocated && allocated < next);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_misuse_is_named),
        cmocka_unit_test(test_misuse_leaves_faults_to_earlier_handlers),
        cmocka_unit_test(test_misuse_reports_before_earlier_handlers),
        cmocka_unit_test(test_misuse_leaves_the_default_action),
        cmocka_unit_test(test_misuse_is_reported_from_small_stacks),
        cmocka_unit_test(test_misuse_by_threads_at_once),
    };

    test_start_layers();
    sa_sampler_init(1, 1);
    test_start(TEST_CACHE_LIMIT);
    guard_all();
    return cmocka_run_group_tests_name("misuse", tests, NULL, NULL);
}
