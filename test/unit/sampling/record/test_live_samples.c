/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of live samples against a model that keeps everything: what is live, what was live at
 * the peak, totals per stack, records used again; copies while other threads add and remove.
 *
 * The peak is where the program has most in use, which samples are a small part of. Probabilities
 * are powers of two and sizes whole, so that all sums are exact.
 */
#include "sampling/record/live_samples.h"

#include "sampling/snapshot/profile_snapshot.h"
#include "test/support/faults.h"
#include "test/support/random.h"
#include "test/support/samples.h"
#include "test/support/start.h"
#include "test/support/threads.h"

#include <string.h>

#define MOST  3000
#define SITES 20

/* The model. */
struct block {
    struct sa_sample *sample; /* NULL: free */
    unsigned site;
    size_t allocated;
    double p;
};

static struct {
    struct block block[MOST], at_peak[MOST];
    double bytes, peak; /* estimates */
    double in_use, max; /* what the program has, sampled or not */
    double total_bytes[SITES], total_count[SITES];
} model;

static void model_use(double bytes)
{
    model.in_use += bytes;
    if (model.in_use > model.max) {
        model.max = model.in_use;
        model.peak = model.bytes;
        memcpy(model.at_peak, model.block, sizeof(model.block));
    }
}

static void model_add(struct test_random *r, size_t i)
{
    struct block *b = &model.block[i];

    b->site = (unsigned)test_random_below(r, SITES);
    b->allocated = 16 * test_random_size(r, 16);
    b->p = 1.0 / (double)(1ul << test_random_below(r, 12));
    b->sample = sample_add(b->site, b->allocated, b->p);
    assert_non_null(b->sample);
    model.bytes += (double)b->allocated / b->p;
    model.total_bytes[b->site] += (double)b->allocated / b->p;
    model.total_count[b->site] += 1 / b->p;
    model_use((double)b->allocated);
}

static void model_remove(size_t i)
{
    struct block *b = &model.block[i];

    model.bytes -= (double)b->allocated / b->p;
    model.in_use -= (double)b->allocated;
    sample_remove(b->sample);
    b->sample = NULL;
}

/* Blocks come and go of which none is sampled. */
static void model_use_unsampled(struct test_random *r)
{
    static int64_t unsampled;
    int64_t bytes = (int64_t)test_random_below(r, 1 << 20) - (1 << 19);

    if (unsampled + bytes < 0)
        return;
    unsampled += bytes;
    sa_in_use_add(bytes);
    sa_in_use_note(sa_load_relaxed(&sa_in_use.bytes), 1);
    model_use((double)bytes);
}

/* Bytes and blocks per site: of a copy, and of the model. Order does not matter. */
struct sums {
    double bytes[SITES];
    size_t samples[SITES], all;
};

static struct sums sums_of_copy(bool peak)
{
    struct sa_copied c;
    struct sums sums = {.all = 0};

    assert_true(sa_live_copy(peak, &c));
    for (size_t i = 0; i < c.count; i++) {
        const struct sa_sample_copy *s = &c.samples[i];
        size_t site = s->key.stack->pc[0] - 0x1000;

        assert_in_range(site, 0, SITES - 1);
        assert_true(s->key.requested == s->key.allocated - 1);
        assert_true(s->offset == 2.0 * (double)s->samples && s->hits == 3.0 * (double)s->samples);
        assert_true(peak || (s->start == samples_span.start && s->samples == 1));
        sums.bytes[site] += (double)s->samples * (double)s->key.allocated / s->key.p;
        sums.samples[site] += s->samples;
        sums.all += s->samples;
    }
    sa_live_free_copied(&c);
    return sums;
}

static struct sums sums_of_model(const struct block *blocks)
{
    struct sums sums = {.all = 0};

    for (size_t i = 0; i < MOST; i++) {
        if (!blocks[i].sample)
            continue;
        sums.bytes[blocks[i].site] += (double)blocks[i].allocated / blocks[i].p;
        sums.samples[blocks[i].site]++;
        sums.all++;
    }
    return sums;
}

static void assert_as_the_model(void)
{
    struct sums live = sums_of_copy(false), live_model = sums_of_model(model.block);
    struct sums peak = sums_of_copy(true), peak_model = sums_of_model(model.at_peak);
    struct sa_live_stats stats;

    assert_memory_equal(&live, &live_model, sizeof(live));
    assert_memory_equal(&peak, &peak_model, sizeof(peak));
    sa_live_stats(&stats);
    assert_int_equal(stats.samples, live.all);
    assert_true(stats.kept <= peak.all);
    assert_true(stats.bytes == model.bytes && stats.peak_bytes == model.peak);
}

static void visit_total(struct sa_stack *stack, void *arg)
{
    struct sa_sums *found = arg;
    size_t site = stack->pc[0] - 0x1000;

    assert_in_range(site, 0, SITES - 1);
    found[site] = stack->totals;
}

static void assert_totals(void)
{
    struct sa_sums found[SITES] = {{0}}, evicted = {0};

    sa_live_totals(visit_total, found, &evicted);
    assert_true(evicted.samples == 0 && evicted.certain == 0);
    for (size_t i = 0; i < SITES; i++) {
        assert_true(found[i].bytes + found[i].certain_bytes == model.total_bytes[i]);
        assert_true(found[i].count + (double)found[i].certain == model.total_count[i]);
    }
}

/* Waves of random height, checked against the model again and again; at the end all is free. */
static void test_live_follows_the_model(void **state)
{
    struct test_random r = {0x11fe};
    struct sa_live_stats stats;

    (void)state;
    assert_as_the_model();
    for (int wave = 0; wave < 40; wave++) {
        size_t high = test_random_below(&r, MOST), chance = 20 + test_random_below(&r, 60);

        for (int step = 0; step < 2000; step++) {
            size_t i = test_random_below(&r, high + 1);

            if (model.block[i].sample)
                model_remove(i);
            else if (test_random_below(&r, 100) < chance)
                model_add(&r, i);
            if (step % 3 == 0)
                model_use_unsampled(&r);
            if (step % 500 == 0)
                assert_as_the_model();
        }
        for (size_t i = 0; i < MOST; i++)
            if (model.block[i].sample && test_random_below(&r, 3))
                model_remove(i);
        assert_as_the_model();
        assert_totals();
    }
    for (size_t i = 0; i < MOST; i++)
        if (model.block[i].sample)
            model_remove(i);
    assert_as_the_model();
    assert_totals();
    sa_live_stats(&stats);
    assert_int_equal(stats.samples, 0);
    assert_true(stats.bytes == 0);
}

/* Records and references: what the peak does not need is used again at once, the rest with the next
 * peak. */
static void test_live_uses_records_again(void **state)
{
    struct sa_stack *site = stack_of(0);
    uint32_t before = site->references;
    struct sa_sample *a, *b;
    struct sa_live_stats stats;

    (void)state;
    a = sample_add(0, 16, 1);
    assert_int_equal(site->references, before + 1);
    sample_remove(a); /* far below the peak */
    assert_int_equal(site->references, before);
    b = sample_add(0, 32, 1);
    assert_ptr_equal(a, b);
    sample_remove(b);
    a = sample_add(1, (size_t)1 << 45, 1); /* a new peak: nothing of the old one is kept */
    sa_live_stats(&stats);
    assert_int_equal(stats.kept, 0);
    sample_remove(a);
    sa_live_stats(&stats);
    assert_int_equal(stats.kept, 1);
    b = sample_add(1, 64, 1);
    assert_ptr_not_equal(a, b);
    sample_remove(b);
    for (int i = 0; i < 1000; i++) {
        b = sa_live_new();
        sa_live_drop(b);
        assert_ptr_equal(sa_live_new(), b);
        sa_live_drop(b);
    }
    sa_stack_unref(site);
}

#define WAVE 5000

static struct sa_sample *wave[WAVE];

/* Up to WAVE samples, fewer if there is no memory; how many. */
static size_t wave_add(size_t bytes)
{
    size_t n = 0;

    while (n < WAVE && (wave[n] = sample_add(n % SITES, bytes, 1)))
        n++;
    return n;
}

static void wave_remove(size_t n)
{
    for (size_t i = 0; i < n; i++)
        sample_remove(wave[i]);
}

static void assert_peak_is_a_wave_of(size_t bytes)
{
    struct sums peak = sums_of_copy(true);

    assert_int_equal(peak.all, WAVE);
    for (size_t i = 0; i < SITES; i++) {
        assert_int_equal(peak.samples[i], WAVE / SITES);
        assert_true(peak.bytes[i] == (double)bytes * WAVE / SITES);
    }
}

/*
 * What was live at the peak and is gone costs no records when others come: these take them, and the
 * peak is as it was. Where there is no memory for the rows that are kept instead, nothing of the
 * peak is lost.
 */
static void test_live_peak_needs_few_records(void **state)
{
    static const size_t bytes = (size_t)1 << 46;
    struct sa_live_stats before, stats;
    size_t n;

    (void)state;
    assert_int_equal(wave_add(bytes), WAVE);
    wave_remove(WAVE);
    assert_peak_is_a_wave_of(bytes);
    test_faults.mmap_after = 0;
    n = wave_add(64);
    test_faults_clear();
    assert_true(n < WAVE);
    assert_peak_is_a_wave_of(bytes);
    wave_remove(n);
    sa_live_stats(&before);
    assert_true(before.records < 2 * WAVE);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(wave_add(64), WAVE);
        assert_peak_is_a_wave_of(bytes);
        sa_live_stats(&stats);
        assert_in_range(stats.records, WAVE, before.records);
        assert_in_range(stats.kept, 1, stats.records - WAVE + SITES);
        wave_remove(WAVE);
    }
    sample_remove(sample_add(0, (size_t)1 << 60, 1));
    for (size_t i = 0; i < SITES; i++) { /* one is this function's, one the new peak's */
        struct sa_stack *s = stack_of(i);

        assert_int_equal(s->references, i ? 1 : 2);
        sa_stack_unref(s);
    }
}

/* Rows of one key are one, with all its samples; and a peak profile bears the time of the peak. */
static void test_live_profiles_add_up(void **state)
{
    struct sa_sample *s[60];
    struct sa_profile *p;
    uint64_t found = 0;
    int error;

    (void)state;
    for (size_t i = 0; i < TEST_COUNT(s); i++)
        s[i] = sample_add(i % 2, 48, 0.25);
    p = sa_snapshot_profile(SALLOC_PROFILE_HEAP, &error);
    assert_non_null(p);
    assert_int_equal(p->bucket_count, 2);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(p->buckets[i].samples, TEST_COUNT(s) / 2);
        assert_true(p->buckets[i].offsets == 2.0 * 30 && p->buckets[i].hits == 3.0 * 30);
    }
    for (size_t i = 0; i < p->total_count; i++)
        found += p->totals[i].sums.samples + p->totals[i].sums.certain;
    assert_true(found > TEST_COUNT(s));
    sa_profile_free(p);
    for (size_t i = 0; i < TEST_COUNT(s); i++)
        sample_remove(s[i]);
    p = sa_snapshot_profile(SALLOC_PROFILE_HEAP, &error);
    assert_int_equal(p->bucket_count, 0);
    sa_profile_free(p);
    assert_null(sa_snapshot_profile(SALLOC_PROFILE_LIFETIMES, &error));
    assert_int_equal(error, 22);
    assert_null(sa_snapshot_profile((enum salloc_profile_type)99, &error));
    assert_int_equal(error, 22);
}

/* Every mapping of a copy or a profile may fail: nothing is lost, nothing stays locked. */
static void test_live_without_memory(void **state)
{
    struct sa_sample *s = sample_add(3, 48, 0.25);
    uint32_t references = s->stack->references;
    struct sa_profile *p = NULL;
    int error;

    (void)state;
    for (long after = 0; !p; after++) {
        assert_true(after < 20);
        test_faults.mmap_after = after;
        p = sa_snapshot_profile(SALLOC_PROFILE_HEAP, &error);
        test_faults_clear();
        if (!p)
            assert_int_equal(error, 12);
        if (!p)
            assert_int_equal(s->stack->references, references);
        else if (p->bucket_count == 0) { /* the rows had no room: that is said */
            assert_int_equal(p->samples_dropped, 1);
            sa_profile_free(p);
            p = NULL;
        }
    }
    assert_int_equal(p->bucket_count, 1);
    sa_profile_free(p);
    assert_int_equal(s->stack->references, references);
    sample_remove(s);
}

#define THREADS 3
#define HELD    50
#define FINISHED                                                                                   \
    0x100 /* what a thread that has finished adds to `working`, where a start adds 1               \
           */

/*
 * Thread 0 copies while the others add and remove, each with at most HELD samples of a site of its
 * own and never fewer than one less than that: so much every copy must show.
 */
static void add_remove_or_copy(int index, void *arg)
{
    uint32_t *working = arg; /* atomic */
    struct test_random r = {0x2ac + (uint64_t)index};
    struct sa_sample *held[HELD];
    struct sa_copied c;

    if (index > 0) {
        for (int i = 0; i < HELD; i++)
            held[i] = sample_add((uintptr_t)index, 64, 0.5);
        __atomic_fetch_add(working, 1, __ATOMIC_RELEASE);
        for (int i = 0; i < 60000; i++) {
            size_t at = test_random_below(&r, HELD);

            sample_remove(held[at]);
            held[at] = sample_add((uintptr_t)index, 64, 0.5);
            THREAD_CHECK(held[at] != NULL);
        }
        __atomic_fetch_add(working, FINISHED, __ATOMIC_RELEASE);
        while (__atomic_load_n(working, __ATOMIC_ACQUIRE) < FINISHED * THREADS)
            ;
        for (int i = 0; i < HELD; i++)
            sample_remove(held[i]);
        return;
    }
    while (__atomic_load_n(working, __ATOMIC_ACQUIRE) % FINISHED < THREADS - 1)
        ;
    do {
        size_t of[THREADS] = {0};

        THREAD_CHECK(sa_live_copy(false, &c));
        for (size_t i = 0; i < c.count; i++) {
            size_t site = c.samples[i].key.stack->pc[0] - 0x1000;

            THREAD_CHECK(site > 0 && site < THREADS && c.samples[i].key.p == 0.5);
            of[site % THREADS]++;
        }
        for (int i = 1; i < THREADS; i++)
            THREAD_CHECK(of[i] == HELD || of[i] == HELD - 1);
        sa_live_free_copied(&c);
        THREAD_CHECK(sa_live_copy(true, &c));
        sa_live_free_copied(&c);
    } while (__atomic_load_n(working, __ATOMIC_ACQUIRE) < FINISHED * (THREADS - 1));
    __atomic_fetch_add(working, FINISHED, __ATOMIC_RELEASE);
}

static void test_live_copies_while_others_work(void **state)
{
    uint32_t working = 0;
    struct sa_live_stats stats;

    (void)state;
    test_threads_run(THREADS, add_remove_or_copy, &working);
    test_threads_check();
    sa_live_stats(&stats);
    assert_int_equal(stats.samples, 0);
}

/* Rows are told apart by thread from when it is asked for; of those allocated before, too, in other
 * profiles. */
static void test_live_tells_threads_apart(void **state)
{
    uint64_t lives = sa_live_start(SALLOC_PROFILE_LIFETIMES), all;
    struct sa_sample *s[3];
    struct sa_profile *p;
    int error;

    (void)state;
    sa_sample_set_by_thread(true);
    all = sa_live_start(SALLOC_PROFILE_ALLOCATIONS);
    for (uint32_t i = 0; i < 3; i++) {
        s[i] = sample_add(1, 64, 0.5);
        s[i]->tid = 100 + i;
    }
    p = sa_snapshot_profile(SALLOC_PROFILE_HEAP, &error);
    assert_true(p && p->bucket_count == 3);
    for (size_t i = 0; i < 3; i++) {
        struct salloc_profile_sample view;

        sa_profile_bucket_sample(p, &p->buckets[i], &view);
        assert_true(view.thread == 102 - i && view.samples == 1 && view.free_thread == 0);
    }
    sa_profile_free(p);
    sa_live_remove(s[0], NULL);
    p = sa_snapshot_stop(lives, &error);
    assert_true(p && p->bucket_count == 3);
    for (size_t i = 0; i < 3; i++) {
        const struct sa_bucket_key *key = &p->buckets[i].key;

        assert_int_equal(key->free_tid, key->censored ? 0 : sa_sample_tid(false));
        assert_true(key->censored ? key->tid > 100 : key->tid == 100);
    }
    sa_profile_free(p);
    sa_sample_set_by_thread(false);
    p = sa_snapshot_profile(SALLOC_PROFILE_HEAP, &error);
    assert_true(p && p->bucket_count == 1 && p->buckets[0].key.tid == 0 &&
                p->buckets[0].samples == 2);
    sa_profile_free(p);
    sa_profile_free(sa_snapshot_stop(all, &error));
    sa_live_remove(s[1], NULL);
    sa_live_remove(s[2], NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_live_follows_the_model),
        cmocka_unit_test(test_live_uses_records_again),
        cmocka_unit_test(test_live_profiles_add_up),
        cmocka_unit_test(test_live_peak_needs_few_records),
        cmocka_unit_test(test_live_without_memory),
        cmocka_unit_test(test_live_copies_while_others_work),
        cmocka_unit_test(test_live_tells_threads_apart),
    };

    test_start_layers();
    return cmocka_run_group_tests_name("live", tests, NULL, NULL);
}
