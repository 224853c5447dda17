/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walks that follow what was remembered of earlier ones: they must find the same as a walk that
 * does not, whatever the path says about other stacks, and whoever is writing it.
 */
#include "sampling/stack/unwind_trace_cache.h"

#include "sampling/stack/unwind.h"
#include "test/support/cmocka.h"
#include "test/support/stack_frames.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#ifdef SA_UNWIND_FAST

enum { DEPTHS = 40 };

static void expect_depth(unsigned depth)
{
    stack_frames_start(NULL);
    stack_frames_next(depth);
    assert_int_equal(expected.n, depth + 2);
    stack_frames_expect();
}

static uint32_t written(void)
{
    uint32_t n = 0;

    for (unsigned i = 0; i < TEST_COUNT(sa_trace_caches); i++)
        n += sa_trace_caches[i].sequence / 2;
    return n;
}

/* The one path that has steps. */
static struct sa_trace *only_path(void)
{
    struct sa_trace *found = NULL;

    for (unsigned i = 0; i < TEST_COUNT(sa_trace_caches); i++)
        if (sa_trace_caches[i].count) {
            assert_null(found);
            found = &sa_trace_caches[i];
        }
    assert_non_null(found);
    return found;
}

static struct sa_trace *only_path_if(bool is_there)
{
    return is_there ? only_path() : NULL;
}

static int forget(void **state)
{
    (void)state;
    memset(sa_trace_caches, 0, sizeof(sa_trace_caches));
    memset(sa_trace_cache_numbers, 0, sizeof(sa_trace_cache_numbers));
    return 0;
}

/* A stack that comes again and again is written once, and then followed to its end. */
static void test_trace_cache_is_followed(void **state)
{
    struct stack first;

    (void)state;
    /* One call, or it is another stack: volatile, as a compiler may peel the first round off. */
    for (volatile int i = 0; i < 100; i++) {
        assert_int_equal(written(), i > SA_TRACE_CACHE_PATIENCE);
        expect_depth(5);
        first = i ? first : captured;
        assert_memory_equal(&captured, &first, sizeof(first));
        if (i >= SA_TRACE_CACHE_PATIENCE) {
            assert_true(only_path()->count > 5);
            assert_int_equal(only_path()->left, 0);
        }
    }
}

/* Stacks of all depths and kinds of frames, which leave each other's path anywhere, and are cut at
 * every length. */
static void test_trace_cache_is_left_where_stacks_differ(void **state)
{
    (void)state;
    /* Wherever the stack is, they have one path. */
    memset(sa_trace_cache_numbers, 1, sizeof(sa_trace_cache_numbers));
    for (unsigned round = 0; round < 40; round++)
        for (unsigned depth = 0; depth < DEPTHS; depth++)
            for (unsigned again = 0; again <= round % 8; again++)
                expect_depth(depth * (round % 5 + 1) % DEPTHS);
    assert_true(written() > DEPTHS);
}

NOINLINE static unsigned inner(unsigned max, uintptr_t *pc)
{
    struct stack s;

    memset(&s, 0, sizeof(s));
    stack_frames_inner(__builtin_dwarf_cfa(), 2, &s, max);
    memcpy(pc, s.pc, sizeof(s.pc[0]) * (max + 1));
    return s.n;
}

/* However many addresses are asked for, also once the path is longer. */
static void test_trace_cache_stops_where_asked(void **state)
{
    uintptr_t whole[MOST], some[MOST];
    unsigned n = 0;

    (void)state;
    for (int i = 0; i < 10; i++)
        n = inner(SA_STACK_MAX, whole);
    assert_true(n > 2);
    for (unsigned max = 0; max <= n; max++) {
        assert_int_equal(inner(max, some), max);
        assert_int_equal(some[max], 0);
        for (unsigned i = 1; i < max; i++) /* but for the call here */
            assert_int_equal(some[i], whole[i]);
    }
}

/* Makes all rules from a step on wrong: of frames of one word. */
static void spoil(struct sa_trace *path, uint32_t from)
{
    for (uint32_t i = from; i < path->count; i++)
        path->step[i].rule = 1ull << 35 | 1;
}

/* Way number `way` of making a path wrong, from its steps and something that no walk does. */
static void make_wrong(struct sa_trace *path, uint32_t way)
{
    uint32_t i = way % path->count;

    if (way < path->count) {
        path->step[i].pc++; /* the walk does not arrive there */
        spoil(path, i);
    } else if (way < 2 * path->count) {
        if ((path->step[i].rule & SA_RULE_KIND) == SA_RULE_KIND)
            path->step[i].rule ^= 8; /* it is not that object */
        else
            path->step[i].pc--;
        spoil(path, i + 1);
    } else {
        path->sequence |= 1; /* it is being written */
        spoil(path, 0);
    }
}

/* A path that is not right for the walk does not change what it finds. */
static void test_trace_cache_is_only_a_guess(void **state)
{
    struct sa_trace *path, right = {.count = 1};
    bool has_object = false;

    (void)state;
    for (uint32_t i = 0; i <= 10 + 2 * right.count; i++) { /* one call, or it is another stack */
        expect_depth(3);
        path = only_path_if(i >= SA_TRACE_CACHE_PATIENCE);
        if (i == 9)
            right = *path;
        if (i < 9)
            continue;
        assert_int_equal(path->left, i > 9 && i < 10 + 2 * right.count);
        *path = right;
        make_wrong(path, i - 9);
    }
    assert_int_equal(path->sequence, right.sequence | 1);
    for (uint32_t i = 0; i < right.count; i++)
        has_object = has_object || (right.step[i].rule & SA_RULE_KIND) == SA_RULE_KIND;
    assert_true(has_object); /* cmocka's library */
}

/* --- threads --- */

static struct sa_trace_recorded made[2];
static bool stop; /* atomic */

static void *write_paths(void *arg)
{
    (void)arg;
    for (unsigned i = 0; !sa_load_relaxed(&stop); i++)
        for (unsigned k = 0; k < TEST_COUNT(sa_trace_caches); k++)
            sa_trace_cache_set(&sa_trace_caches[k], &made[i % 2]);
    return NULL;
}

/* Of two paths the one is right, the other is of other addresses and would be wrong here. */
static void test_trace_cache_may_be_written_meanwhile(void **state)
{
    pthread_t thread;
    struct sa_trace *path;

    (void)state;
    for (int i = 0; i < 50000; i++) {
        expect_depth(20);
        if (i != 10)
            continue;
        path = only_path();
        for (unsigned k = 0; k < 2; k++) {
            made[k].count = path->count;
            memcpy(made[k].step, path->step, sizeof(path->step));
        }
        for (uint32_t k = 0; k < path->count; k++) {
            made[1].step[k].pc++;
            made[1].step[k].rule = 1ull << 35 | 1;
        }
        assert_int_equal(pthread_create(&thread, NULL, write_paths, NULL), 0);
    }
    sa_store_relaxed(&stop, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

/* The same, not by chance. */
static void test_trace_cache_tells_that_it_was_written(void **state)
{
    static struct sa_trace path;
    uint32_t sequence;

    (void)state;
    assert_true(sa_trace_cache_begin(&path, &sequence));
    assert_true(sa_trace_cache_is_whole(&path, sequence));
    sa_trace_cache_set(&path, &made[0]);
    assert_false(sa_trace_cache_is_whole(&path, sequence));
    assert_true(sa_trace_cache_begin(&path, &sequence));
    path.sequence++; /* as while it is being written */
    assert_false(sa_trace_cache_is_whole(&path, sequence));
    assert_false(sa_trace_cache_begin(&path, &sequence));
    sa_trace_cache_set(&path, &made[0]);
    assert_false(sa_trace_cache_begin(&path, &sequence));
}

/* Made rules on both sides of each bound. */
static void test_trace_cache_knows_plain_rules(void **state)
{
    static const struct {
        int64_t cfa;
        int rbp;
        unsigned flags;
        bool plain;
    } rules[] = {
        {8, 0, SA_RULE_FRAME, true},
        {1 << 30, 0, SA_RULE_FRAME, true},
        {(1 << 30) + 8, 0, SA_RULE_FRAME, false},
        {0, 0, SA_RULE_FRAME, false},
        {-8, 0, SA_RULE_FRAME, false},
        {12, 0, SA_RULE_FRAME, false},
        {16, -16, SA_RULE_FRAME | SA_RULE_RBP_AT_CFA, true},
        {16, -24, SA_RULE_FRAME | SA_RULE_RBP_AT_CFA, false},
        {16, 0, SA_RULE_FRAME | SA_RULE_RBP_AT_CFA, false},
        {16, -12, SA_RULE_FRAME | SA_RULE_RBP_AT_CFA, false},
        {16, -16, SA_RULE_FRAME | SA_RULE_RBP_AT_RBP, false},
        {16, 0, SA_RULE_FRAME | SA_RULE_CFA_RBP, false},
        {16, 0, SA_RULE_FRAME | SA_RULE_CFA_R10, false},
        {16, 0, SA_RULE_FRAME | SA_RULE_CFA_STORED, false},
        {16, 0, SA_RULE_END, false},
    };

    (void)state;
    for (size_t i = 0; i < TEST_COUNT(rules); i++) {
        uint64_t rule = (uint64_t)rules[i].cfa << 32 | (uint64_t)(uint16_t)rules[i].rbp << 16;

        assert_int_equal(sa_trace_cache_is_plain(rule | rules[i].flags), rules[i].plain);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_trace_cache_is_followed, forget),
        cmocka_unit_test_setup(test_trace_cache_is_left_where_stacks_differ, forget),
        cmocka_unit_test_setup(test_trace_cache_stops_where_asked, forget),
        cmocka_unit_test_setup(test_trace_cache_is_only_a_guess, forget),
        cmocka_unit_test_setup(test_trace_cache_may_be_written_meanwhile, forget),
        cmocka_unit_test(test_trace_cache_knows_plain_rules),
        cmocka_unit_test(test_trace_cache_tells_that_it_was_written),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void)
{
    puts("1..0 # SKIP no such walks here");
    return 0;
}

#endif
