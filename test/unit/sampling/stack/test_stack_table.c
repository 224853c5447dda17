/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of call stacks: one copy of each, references, the limit on its memory with what is
 * dropped and what is evicted, totals that never get lost, threads, and memory that cannot be had.
 *
 * The table is one for the process, so tests use stacks of their own (a number in the leaf) and
 * leave none referred to. samples_added is what all tests together put into totals.
 */
#include "sampling/stack/stack.h"

#include "alloc/os/lock.h"
#include "alloc/os/vm.h"
#include "sampling/stack/stack_table_internal.h"
#include "test/support/child.h"
#include "test/support/cmocka.h"
#include "test/support/faults.h"
#include "test/support/random.h"
#include "test/support/threads.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MIB ((size_t)1 << 20)

static uint64_t samples_added;

/* Stands for the lock of live samples, which sa_stack_each requires. */
static struct sa_lock samples_lock;

/* The pcs of stack `number` of a test: those of different numbers, or tests, differ. */
static void fill(uintptr_t *pc, unsigned depth, uint64_t test, uint64_t number)
{
    pc[0] = (uintptr_t)(test << 48 | number);
    for (unsigned i = 1; i < depth; i++)
        pc[i] = 0x400000 + 64 * i;
}

static struct sa_stack *intern(unsigned depth, uint64_t test, uint64_t number)
{
    uintptr_t pc[SA_STACK_MAX];

    fill(pc, depth, test, number);
    return sa_stack_intern(pc, depth);
}

static bool is_intact(const struct sa_stack *s, unsigned depth, uint64_t test, uint64_t number)
{
    uintptr_t pc[SA_STACK_MAX];

    fill(pc, depth, test, number);
    return s->depth == depth && memcmp(s->pc, pc, depth * sizeof(*pc)) == 0;
}

static void count_sample(struct sa_stack *s)
{
    s->totals.samples++;
    samples_added++;
}

static void visit(struct sa_stack *s, void *arg)
{
    *(uint64_t *)arg += s->totals.samples;
}

static void each(void (*visitor)(struct sa_stack *stack, void *arg), void *arg,
                 struct sa_sums *ret_evicted)
{
    sa_lock_acquire(&samples_lock, SA_RANK_SAMPLES);
    sa_stack_each(visitor, arg, ret_evicted);
    sa_lock_release(&samples_lock, SA_RANK_SAMPLES);
}

static struct sa_stack_stats stats(void)
{
    struct sa_stack_stats s;

    sa_stack_stats(&s);
    return s;
}

/* Every sample is in the totals of a stack, or of those that were evicted. */
static void assert_no_sample_lost(void)
{
    uint64_t samples = 0;
    struct sa_sums evicted;

    sa_stack_table_validate();
    each(visit, &samples, &evicted);
    assert_int_equal(samples + evicted.samples, samples_added);
    assert_int_equal(stats().evicted_samples, evicted.samples - sa_stack_unknown.totals.samples);
}

static void assert_within_limit(void)
{
    struct sa_stack_stats s = stats();

    assert_true(s.bytes <= s.limit_bytes);
}

/* The same addresses give the same record, whatever was interned in between; others give
 * another. */
static void test_stack_table_keeps_one_copy(void **state)
{
    struct sa_stack *first[SA_STACK_MAX + 1];

    (void)state;
    assert_int_equal(stats().bytes, 0);
    for (unsigned depth = 1; depth <= SA_STACK_MAX; depth++) { /* each is the start of the next */
        first[depth] = intern(depth, 1, 7);
        for (unsigned i = 1; i < depth; i++)
            assert_ptr_not_equal(first[depth], first[i]);
    }
    for (unsigned depth = 1; depth <= SA_STACK_MAX; depth++) {
        assert_ptr_equal(intern(depth, 1, 7), first[depth]);
        assert_true(is_intact(first[depth], depth, 1, 7));
        assert_int_equal(first[depth]->references, 2);
        sa_stack_ref(first[depth]);
        for (int i = 0; i < 3; i++)
            sa_stack_unref(first[depth]);
        assert_int_equal(first[depth]->references, 0);
    }
    assert_int_equal(stats().stacks, SA_STACK_MAX);
    assert_int_equal(stats().dropped, 0);
    assert_within_limit();
}

/* While the table grows from its first page of buckets, through four doublings, each stack is where
 * it is looked for. */
static void test_stack_table_finds_all_while_it_grows(void **state)
{
    enum { MANY = 10000 };
    static struct sa_stack *s[MANY];
    size_t before = stats().stacks;

    (void)state;
    for (unsigned i = 0; i < MANY; i++) {
        s[i] = intern(3, 12, i);
        count_sample(s[i]);
        assert_ptr_equal(intern(3, 12, i * 7919 % (i + 1)), s[i * 7919 % (i + 1)]);
    }
    assert_int_equal(stats().stacks, before + MANY);
    assert_no_sample_lost();
    for (unsigned i = 0; i < MANY; i++)
        assert_ptr_equal(intern(3, 12, i), s[i]);
    for (unsigned i = 0; i < MANY; i++)
        while (s[i]->references)
            sa_stack_unref(s[i]);
}

/* A stack that differs in one address anywhere is another stack. */
static void test_stack_table_tells_single_addresses_apart(void **state)
{
    struct sa_stack *base = intern(20, 2, 1), *s;
    uintptr_t pc[SA_STACK_MAX];

    (void)state;
    for (unsigned i = 0; i < 20; i++) {
        fill(pc, 20, 2, 1);
        pc[i] ^= 1;
        s = sa_stack_intern(pc, 20);
        assert_ptr_not_equal(s, base);
        assert_memory_equal(s->pc, pc, 20 * sizeof(*pc));
        sa_stack_unref(s);
    }
    sa_stack_unref(base);
}

/* No frames: the stack that stands for those not kept, and counted as such. It takes any
 * reference. */
static void test_stack_table_counts_empty_stacks_as_dropped(void **state)
{
    uint64_t dropped = stats().dropped;
    uintptr_t none[1];

    (void)state;
    assert_ptr_equal(sa_stack_intern(none, 0), &sa_stack_unknown);
    assert_int_equal(stats().dropped, dropped + 1);
    sa_stack_ref(&sa_stack_unknown);
    sa_stack_unref(&sa_stack_unknown);
    sa_stack_unref(&sa_stack_unknown);
    count_sample(&sa_stack_unknown);
    assert_no_sample_lost();
}

/*
 * Distinct stacks without end, none referred to for long: memory stays under the limit, nothing is
 * dropped, and what was evicted is in the sum. Ten million with SALLOC_TEST_FULL.
 */
static void test_stack_table_stays_under_its_limit(void **state)
{
    uint64_t count = getenv("SALLOC_TEST_FULL") ? 10000000 : 500000;
    struct sa_stack_stats before = stats(), after;
    struct test_random r = {0x57ac1};

    (void)state;
    sa_stack_table_limit(16 * MIB);
    for (uint64_t n = 0; n < count; n++) {
        struct sa_stack *s = intern(1 + (unsigned)test_random_below(&r, SA_STACK_MAX), 3, n);

        count_sample(s);
        sa_stack_unref(s);
        if (n % 4096 == 0)
            assert_within_limit();
    }
    after = stats();
    assert_within_limit();
    assert_int_equal(after.dropped, before.dropped);
    assert_int_equal(after.stacks + after.evicted, before.stacks + before.evicted + count);
    assert_true(after.evicted > count / 2);
    assert_true(after.stacks > 16 * MIB / 1024); /* no stack takes more, so the memory is used */
    assert_no_sample_lost();
}

/* All referred to: what does not fit is dropped and counted, what fits stays whole. Once references
 * end there is room again. */
static void test_stack_table_drops_when_all_are_referred_to(void **state)
{
    enum { COUNT = 100000 };
    static struct sa_stack *stacks[COUNT];
    struct sa_stack_stats before = stats(), after;
    uint64_t dropped = 0;

    (void)state;
    for (unsigned n = 0; n < COUNT; n++) {
        stacks[n] = intern(1 + n % SA_STACK_MAX, 4, n);
        count_sample(stacks[n]);
        dropped += stacks[n] == &sa_stack_unknown;
    }
    after = stats();
    assert_within_limit();
    assert_true(dropped > 0 && dropped < COUNT);
    assert_int_equal(after.dropped - before.dropped, dropped);
    for (unsigned n = 0; n < COUNT; n++) {
        if (stacks[n] != &sa_stack_unknown)
            assert_true(is_intact(stacks[n], 1 + n % SA_STACK_MAX, 4, n));
        sa_stack_unref(stacks[n]);
    }
    assert_no_sample_lost();
    for (unsigned n = 0; n < 1000; n++) {
        struct sa_stack *s = intern(1 + n % SA_STACK_MAX, 5, n);

        assert_ptr_not_equal(s, &sa_stack_unknown);
        sa_stack_unref(s);
    }
    assert_int_equal(stats().dropped, after.dropped);
}

/* Memory that went to short stacks serves deep ones, and back, with no memory to add. */
static void test_stack_table_moves_memory_between_sizes(void **state)
{
    (void)state;
    for (unsigned round = 0; round < 4; round++) {
        unsigned depth = round % 2 ? SA_STACK_MAX : 3;
        uint64_t dropped = stats().dropped;

        for (uint64_t n = 0; n < 150000; n++)
            sa_stack_unref(intern(depth, 6 + round, n));
        assert_int_equal(stats().dropped, dropped);
        /* All but what was used in passing now is of this depth. */
        assert_true(stats().stacks * (sizeof(struct sa_stack) + depth * sizeof(uintptr_t)) >
                    stats().limit_bytes / 2);
    }
    assert_no_sample_lost();
}

/* What is found again and again is not evicted, though nobody keeps a reference. */
static void test_stack_table_keeps_what_is_used(void **state)
{
    struct sa_stack *used = intern(10, 11, 0);
    uint64_t evicted = stats().evicted, samples = used->totals.samples;

    (void)state;
    for (uint64_t n = 1; n <= 200000; n++) {
        count_sample(used);
        samples++;
        sa_stack_unref(used);
        sa_stack_unref(intern(10, 11, n));
        assert_ptr_equal(intern(10, 11, 0), used);
    }
    assert_true(stats().evicted > evicted + 100000);
    assert_int_equal(used->totals.samples, samples);
    sa_stack_unref(used);
}

/* Without memory nothing is kept, nothing breaks, and it is counted; with memory it goes on. */
static void test_stack_table_survives_without_memory(void **state)
{
    enum { COUNT = 40000 };
    static struct sa_stack *stacks[COUNT];
    uint64_t dropped;
    unsigned kept = 0;

    (void)state;
    sa_stack_table_limit(64 * MIB);
    dropped = stats().dropped;
    test_faults.mmap_after = 0;
    for (unsigned n = 0; n < COUNT; n++) /* at first by evicting */
        stacks[n] = intern(SA_STACK_MAX, 12, n);
    test_faults_clear();
    for (unsigned n = 0; n < COUNT; n++)
        kept += stacks[n] != &sa_stack_unknown;
    assert_true(kept < COUNT);
    assert_int_equal(stats().dropped - dropped, COUNT - kept);
    assert_ptr_not_equal(intern(SA_STACK_MAX, 12, COUNT), &sa_stack_unknown);
    sa_stack_unref(intern(SA_STACK_MAX, 12, COUNT));
    sa_stack_unref(intern(SA_STACK_MAX, 12, COUNT));
    for (unsigned n = 0; n < COUNT; n++)
        sa_stack_unref(stacks[n]);
    assert_no_sample_lost();
}

static pthread_mutex_t totals_mutex = PTHREAD_MUTEX_INITIALIZER;

static void use_in_thread(int index, void *arg)
{
    struct test_random r = {0x57ac2 + (uint64_t)index};
    struct sa_stack *held[32] = {NULL};
    uint64_t numbers[32] = {0};

    (void)arg;
    for (int i = 0; i < 40000; i++) {
        unsigned at = (unsigned)test_random_below(&r, 32);
        uint64_t number = test_random_below(&r, i % 2 ? 100 : 100000); /* shared, and rare ones */

        if (held[at]) {
            THREAD_CHECK(held[at] == &sa_stack_unknown ||
                         is_intact(held[at], 1 + numbers[at] % SA_STACK_MAX, 13, numbers[at]));
            sa_stack_unref(held[at]);
        }
        numbers[at] = number;
        held[at] = intern(1 + number % SA_STACK_MAX, 13, number);
        pthread_mutex_lock(&totals_mutex); /* as SAMPLES */
        count_sample(held[at]);
        pthread_mutex_unlock(&totals_mutex);
        if (i % 1000 == 0) {
            uint64_t samples = 0;
            struct sa_sums evicted;

            pthread_mutex_lock(&totals_mutex);
            each(visit, &samples, &evicted);
            THREAD_CHECK(samples + evicted.samples == samples_added);
            pthread_mutex_unlock(&totals_mutex);
        }
    }
    for (unsigned at = 0; at < 32; at++)
        if (held[at])
            sa_stack_unref(held[at]);
}

/* Held stacks stay intact while other threads evict; no sample is lost at any time. */
static void test_stack_table_serves_threads(void **state)
{
    (void)state;
    test_threads_run(4, use_in_thread, NULL);
    test_threads_check();
    assert_no_sample_lost();
}

static void count_referred(struct sa_stack *s, void *arg)
{
    *(unsigned *)arg += s->references != 0;
}

/* After all tests nobody refers to anything: references were counted right. */
static void test_stack_table_references_end(void **state)
{
    unsigned referred = 0;
    struct sa_sums evicted;

    (void)state;
    each(count_referred, &referred, &evicted);
    assert_int_equal(referred, 0);
}

/* One field of a live stack, of its block, or of a neighbour, changed behind the table's back. */
enum damage {
    REFERENCES,
    HASH,
    DEPTH,
    SLOT,
    CYCLE,
    LOST,
    LIVE,
    TAKEN,
    USED,
    SIZE,
    READY,
    DAMAGES,
};

static void damage_and_validate(void *arg)
{
    struct sa_stack *s = intern(3, 15, 1);
    struct stack_block *b = stack_block_of(s);

    switch (*(enum damage *)arg) {
    case REFERENCES:
        s->references = 0;
        break;
    case HASH:
        s->hash++;
        break;
    case DEPTH:
        s->depth = SA_STACK_MAX;
        break;
    case SLOT:
        s->slot++;
        break;
    case CYCLE:
        s->next = s;
        break;
    case LOST: /* the rest of the chain, or else the stack's own memory */
        if (s->next)
            s->next = s->next->next;
        else
            b->taken &= ~(1u << s->slot);
        break;
    case LIVE:
        b->live ^= 1u << s->slot;
        break;
    case TAKEN:
        b->taken &= ~(1u << s->slot);
        break;
    case USED:
        b->used |= 1u << 31;
        break;
    case SIZE:
        b->size = STACK_SLOT_SIZES;
        break;
    case READY: /* the ring goes on without the block that follows */
        b->ready.next = b->ready.next ? NULL : &b->ready;
        break;
    default:
        return;
    }
    sa_stack_table_validate();
}

/* A check finds each kind of damage, so that the checks of the other tests mean something. */
static void test_stack_table_validate_finds_damage(void **state)
{
    (void)state;
    sa_stack_unref(intern(3, 15, 1));
    sa_stack_table_validate();
    for (enum damage d = 0; d < DAMAGES; d++)
        test_child_aborts(damage_and_validate, &d, "stack_table_validate.c");
}

/* No bound: machines differ. */
static void test_stack_table_says_how_fast_it_is(void **state)
{
    enum { ROUNDS = 200000 };
    struct timespec from, to;
    uintptr_t pc[20];

    (void)state;
    fill(pc, 20, 14, 0);
    clock_gettime(CLOCK_MONOTONIC, &from);
    for (int i = 0; i < ROUNDS; i++)
        sa_stack_unref(sa_stack_intern(pc, 20));
    clock_gettime(CLOCK_MONOTONIC, &to);
    print_message("# %.0f ns to find a stack of 20 frames and let it go\n",
                  ((double)(to.tv_sec - from.tv_sec) * 1e9 + (double)(to.tv_nsec - from.tv_nsec)) /
                      ROUNDS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stack_table_keeps_one_copy),
        cmocka_unit_test(test_stack_table_finds_all_while_it_grows),
        cmocka_unit_test(test_stack_table_tells_single_addresses_apart),
        cmocka_unit_test(test_stack_table_counts_empty_stacks_as_dropped),
        cmocka_unit_test(test_stack_table_stays_under_its_limit),
        cmocka_unit_test(test_stack_table_drops_when_all_are_referred_to),
        cmocka_unit_test(test_stack_table_moves_memory_between_sizes),
        cmocka_unit_test(test_stack_table_keeps_what_is_used),
        cmocka_unit_test(test_stack_table_survives_without_memory),
        cmocka_unit_test(test_stack_table_serves_threads),
        cmocka_unit_test(test_stack_table_references_end),
        cmocka_unit_test(test_stack_table_validate_finds_damage),
        cmocka_unit_test(test_stack_table_says_how_fast_it_is),
    };

    sa_vm_init();
    return cmocka_run_group_tests_name("stack_table", tests, NULL, NULL);
}
