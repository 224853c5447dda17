/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inspections find what was written beside blocks in use and into free ones, and nothing else:
 * neither while other threads allocate, nor in a signal handler that meets a block half made.
 */
#include "alloc/hardening/inspect.h"

#include "alloc/base/hardening.h"
#include "alloc/base/single_threaded.h"
#include "alloc/fork/fork_gate.h"
#include "alloc/front/block.h"
#include "alloc/hardening/hardened.h"
#include "alloc/hardening/quarantine.h"
#include "test/support/child.h"
#include "test/support/random.h"
#include "test/support/start.h"
#include "test/support/guards.h"
#include "test/support/traffic.h"

#include <signal.h>

#define SMALL     50     /* with slack, as its object has 64 bytes */
#define LARGE     300000 /* of a span of its own, with slack on its last page */
#define TAIL_SIZE 300    /* with slack, in an object full of junk before */

static void inspect_maintained(void)
{
    sa_fork_gate_enter();
    for (int i = 0; i < 100; i++) /* some of the heap each time */
        sa_inspect_some();
    sa_fork_gate_leave();
}

static char *damaged;

static void look_at(const char *place)
{
    damaged = (char *)place;
    *damaged ^= 1;
}

static void in_slack(void *arg)
{
    size_t size = *(size_t *)arg;
    char *p = sa_front_alloc(size, 1, false);

    look_at(p + size);
    sa_inspect_all();
}

static void in_mark(void *unused)
{
    char *p = sa_front_alloc(64 - SA_CANARY_BYTES, 1, false);

    (void)unused;
    look_at(p + 64 - SA_CANARY_BYTES);
    sa_inspect_all();
}

static void in_freed(void *unused)
{
    char *p = sa_front_alloc(SMALL, 1, false);

    (void)unused;
    sa_front_free(p);
    look_at(p + 7);
    sa_inspect_all();
}

static void in_freed_by_maintenance(void *unused)
{
    char *p = sa_front_alloc(SMALL, 1, false);

    (void)unused;
    sa_front_free(p);
    look_at(p + 7);
    inspect_maintained();
}

static void test_inspect_finds_what_was_written(void **state)
{
    size_t small = SMALL, large = LARGE;

    (void)state;
    test_child_aborts(in_slack, &small, "0 bytes behind the end of a block of 50 bytes");
#ifdef SA_SINGLE_THREADED_WORD /* where salloc knows that the process has one thread */
    test_child_aborts(in_slack, &large, "0 bytes behind the end of a block of 300000 bytes");
#else
    (void)large;
#endif
    test_child_aborts(in_mark, NULL, "heap buffer overflow");
    test_child_aborts(in_freed, NULL, "at offset 7 of a freed block");
    test_child_aborts(in_freed_by_maintenance, NULL, "at offset 7 of a freed block");
}

static void test_inspect_finds_nothing_else(void **state)
{
    struct test_random r = {5};
    void *p[300] = {NULL};

    (void)state;
    for (unsigned i = 0; i < 3000; i++) {
        unsigned at = (unsigned)test_random_below(&r, TEST_COUNT(p));
        size_t size = test_random_size(&r, 19);

        if (p[at] && i % 3)
            p[at] = sa_front_realloc(p[at], size);
        else if (p[at])
            sa_front_free(p[at]);
        p[at] = p[at] && i % 3 ? p[at] : sa_front_alloc(size, 1, false);
        memset(p[at], (int)i, size);
        if (i % 300 == 0)
            sa_inspect_all();
    }
    for (unsigned i = 0; i < TEST_COUNT(p); i++)
        if (p[i])
            sa_front_free(p[i]);
    sa_inspect_all();
    sa_fork_gate_enter();
    sa_hardened_flush();
    sa_fork_gate_leave();
    assert_nothing_in_use();
}

static uint64_t done;

static void trade_or_inspect(int index, void *unused)
{
    (void)unused;
    if (index) {
        traffic_until(&done, (uint64_t)index, 1000);
        return;
    }
    for (unsigned i = 0; i < 5; i++)
        sa_inspect_all();
    sa_store_relaxed(&done, 1);
}

static void test_inspect_while_threads_allocate(void **state)
{
    (void)state;
    test_threads_run(4, trade_or_inspect, NULL);
    sa_fork_gate_enter();
    sa_hardened_flush();
    sa_fork_gate_leave();
    assert_nothing_in_use();
}

#ifdef __x86_64__

/* A handler after each instruction, by the processor's trap flag: no red zone is overwritten. */
#define STEPS_BEGIN                                                                                \
    __asm__ volatile("sub $128, %%rsp\n pushfq\n orq $0x100, (%%rsp)\n popfq\n add $128, %%rsp" :: \
                         : "memory", "cc")
#define STEPS_END                                                                                  \
    __asm__ volatile("sub $128, %%rsp\n pushfq\n andq $-257, (%%rsp)\n popfq\n add $128, "         \
                     "%%rsp" ::                                                                    \
                         : "memory", "cc")

static volatile unsigned steps;

static void on_step(int number)
{
    (void)number;
    steps++;
    sa_inspect_all();
}

/* An object becomes a block, and a large block gets another size, with an inspection between any
 * two instructions. */
static void make_blocks_while_inspected(void *unused)
{
    struct sigaction action = {.sa_handler = on_step};
    unsigned cls = sa_block_class(TAIL_SIZE, 1);
    char *large = sa_front_alloc(LARGE, 1, false), *p = sa_front_alloc(TAIL_SIZE, 1, false);

    (void)unused;
    CHILD_CHECK(p != NULL && large != NULL);
    sa_hardened_end(p, cls); /* as it is when a cache hands it out */
    sigaction(SIGTRAP, &action, NULL);
    STEPS_BEGIN;
    sa_hardened_begin(p, cls, TAIL_SIZE, 0);
    sa_front_realloc(large, LARGE - 2000);
    sa_front_realloc(large, LARGE);
    STEPS_END;
    CHILD_CHECK(steps > 100);
    sa_front_free(p);
    sa_front_free(large);
}

#endif

static void test_inspect_in_a_signal_handler(void **state)
{
    (void)state;
#ifdef __x86_64__
    test_child_passes(make_blocks_while_inspected, NULL);
#else
    TEST_SKIP("no single steps");
#endif
}

int main(void)
{
    static const uint64_t secret[4] = {35, 36, 37, 38};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_inspect_in_a_signal_handler),
        cmocka_unit_test(test_inspect_finds_what_was_written),
        cmocka_unit_test(test_inspect_finds_nothing_else),
        cmocka_unit_test(test_inspect_while_threads_allocate),
    };

    test_start_layers();
    sa_hardening_init(&(struct sa_hardening){.canaries = true,
                                             .scatter = true,
                                             .guards = true,
                                             .junk_freed = true,
                                             .quarantine_bytes = 1 << 20},
                      secret);
    sa_quarantine_init(1 << 20);
    test_start(TEST_CACHE_LIMIT);
    set_interval(0);
    return cmocka_run_group_tests_name("inspect", tests, NULL, NULL);
}
