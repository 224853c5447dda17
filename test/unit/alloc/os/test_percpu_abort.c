/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The critical sections under interruption: more threads than CPUs, a timer signal, affinity
 * changes and another thread that stops CPUs and rewrites their slabs, while sequences are
 * lengthened right before their commit so that all of that hits them. Objects must neither multiply
 * nor vanish. A run in which the kernel restarted nothing proves nothing and fails as inconclusive.
 */
#include "alloc/hot/hot.h"

#include "alloc/base/atomic.h"
#include "alloc/os/rseq.h"
#include "test/support/cmocka.h"
#include "test/support/percpu_slab.h"
#include "test/support/random.h"
#include "test/support/start.h"
#include "test/support/threads.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/time.h>
#include <time.h>

/* Turns of the delay loop in every sequence of this file (alloc/os/percpu_x86_64.h). */
uint32_t sa_percpu_delay;

#define THREADS 6
#define SLOTS   64
#define OBJECTS 200
#define CLS     1
#define SECONDS 2

static struct sa_slab *all[SA_SLABS], empty; /* all: slab of each CPU */
static int cpus;

/* Each object says who has it: 0 nobody (it is in a slab), else a thread's index + 1. */
static struct object {
    uint32_t owner; /* atomic */
} objects[OBJECTS];

static uint32_t spare_lock;
static void *spare[OBJECTS]; /* objects that found no room; guarded by spare_lock */
static size_t spare_count;
static uint64_t done, pops, stops; /* atomic */

static void take(struct object *o, int index)
{
    uint32_t nobody = 0;

    THREAD_CHECK(sa_cas_acquire(&o->owner, &nobody, (uint32_t)index + 1));
}

static void give(struct object *o, int index)
{
    uint32_t me = (uint32_t)index + 1;

    THREAD_CHECK(sa_cas_release(&o->owner, &me, 0));
}

/* Signals are blocked while the lock is held: their handler takes it too. */
static void spare_acquire(sigset_t *ret_before)
{
    sigset_t all_signals;

    sigfillset(&all_signals);
    pthread_sigmask(SIG_SETMASK, &all_signals, ret_before);
    while (sa_xchg_acquire(&spare_lock, 1))
        sched_yield();
}

static void spare_release(const sigset_t *before)
{
    sa_store_release(&spare_lock, 0);
    pthread_sigmask(SIG_SETMASK, before, NULL);
}

static void spare_put(void *const *objs, size_t n)
{
    sigset_t before;

    spare_acquire(&before);
    THREAD_CHECK(spare_count + n <= OBJECTS);
    memcpy(spare + spare_count, objs, n * sizeof(*objs));
    spare_count += n;
    spare_release(&before);
}

static size_t spare_get(void **objs, size_t n)
{
    sigset_t before;

    spare_acquire(&before);
    n = sa_min(n, spare_count);
    spare_count -= n;
    memcpy(objs, spare + spare_count, n * sizeof(*objs));
    spare_release(&before);
    return n;
}

static void put_back(void *obj)
{
    if (sa_percpu_push(CLS, obj) != SA_PUSHED)
        spare_put(&obj, 1);
}

/* A countdown that ended, or a capacity that the stopper changed: set again, if nobody else
 * does. */
static void renew_header(struct test_random *r)
{
    int32_t cpu = sa_percpu_cpu();
    uint64_t h = sa_load_relaxed(&all[cpu]->header[CLS].state);
    uint32_t avail = sa_state_avail(h), cap = (uint32_t)test_random_below(r, SLOTS + 1);

    sa_percpu_replace(
        cpu, all[cpu], CLS, h,
        sa_state_make(avail, 1 + (uint32_t)test_random_below(r, 50), cap > avail ? cap : avail));
}

static void move_to_other_cpu(struct test_random *r)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(test_random_below(r, (size_t)cpus), &set);
    if (test_random_below(r, 2))
        for (int i = 0; i < cpus; i++)
            CPU_SET((size_t)i, &set);
    sched_setaffinity(0, sizeof(set), &set);
}

static void work(int index)
{
    struct test_random r = {0xab0 + (uint64_t)index};
    void *objs[16];
    size_t n;

    while (!sa_load_relaxed(&done)) {
        switch (test_random_below(&r, 8)) {
        default:
            objs[0] = sa_percpu_pop(CLS);
            if (!objs[0]) {
                renew_header(&r);
                break;
            }
            sa_add_relaxed(&pops, 1);
            take(objs[0], index);
            give(objs[0], index);
            put_back(objs[0]);
            break;
        case 5:
            n = sa_percpu_pop_batch(CLS, objs, 1 + test_random_below(&r, 16));
            for (size_t i = 0; i < n; i++)
                take(objs[i], index);
            for (size_t i = 0; i < n; i++)
                give(objs[i], index);
            if (n)
                spare_put(objs, n);
            break;
        case 6:
            n = spare_get(objs, 1 + test_random_below(&r, 16));
            if (n) {
                size_t fit = sa_percpu_push_batch(CLS, objs, n);

                if (fit < n)
                    spare_put(objs + fit, n - fit);
            }
            break;
        case 7:
            if (test_random_below(&r, 50) == 0)
                move_to_other_cpu(&r);
        }
    }
}

/* Stops a CPU; its slab is then nobody else's, is emptied, given a new capacity and set going. */
static void stop_cpus(void)
{
    struct test_random r = {0x570};
    const struct timespec pause = {0, 200000};

    while (!sa_load_relaxed(&done)) {
        int cpu = (int)test_random_below(&r, (size_t)cpus);
        struct sa_header *h = &all[cpu]->header[CLS];
        uint64_t state;

        sa_store_seq_cst(&sa_hot.slabs[cpu], &empty);
        THREAD_CHECK(sa_rseq_fence(test_random_below(&r, 2) ? cpu : -1));
        state = sa_load_relaxed(&h->state);
        for (uint32_t i = 0; i < sa_state_avail(state); i++) {
            take(h->slots[i], THREADS);
            give(h->slots[i], THREADS);
        }
        if (test_random_below(&r, 2)) {
            spare_put(h->slots, sa_state_avail(state));
            sa_store_relaxed(&h->state,
                             sa_state_make(0, 10, (uint32_t)test_random_below(&r, SLOTS + 1)));
        }
        THREAD_CHECK(sa_load_relaxed(&sa_hot.slabs[cpu]) == &empty);
        sa_store_release(&sa_hot.slabs[cpu], all[cpu]);
        sa_add_relaxed(&stops, 1);
        nanosleep(&pause, NULL);
    }
}

static void end_after_a_while(void)
{
    struct timespec end;

    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += SECONDS;
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL) != 0)
        ; /* a signal came */
    sa_store_relaxed(&done, 1);
}

static void thread(int index, void *arg)
{
    (void)arg;
    if (index < THREADS)
        work(index);
    else if (index == THREADS)
        stop_cpus();
    else
        end_after_a_while();
}

static void on_signal(int sig)
{
    void *obj = sa_percpu_pop(CLS); /* sequences in a handler interrupt those of its thread */

    (void)sig;
    if (obj)
        put_back(obj);
}

/* Every object is in exactly one slab or among the spare ones. */
static void assert_all_there(void)
{
    static uint8_t seen[OBJECTS];
    size_t found = 0;

    for (size_t i = 0; i < spare_count; i++)
        seen[(struct object *)spare[i] - objects]++;
    for (int cpu = 0; cpu < cpus; cpu++) {
        struct sa_header *h = &all[cpu]->header[CLS];

        for (uint32_t i = 0; i < sa_state_avail(h->state); i++)
            seen[(struct object *)h->slots[i] - objects]++;
    }
    for (size_t i = 0; i < OBJECTS; i++) {
        found += seen[i];
        assert_int_equal(seen[i], 1);
        assert_int_equal(objects[i].owner, 0);
    }
    assert_int_equal(found, OBJECTS);
}

static void test_percpu_keeps_objects_through_interruptions(void **state)
{
    const struct itimerval often = {{0, 500}, {0, 500}}, never = {{0, 0}, {0, 0}};
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};

    (void)state;
    for (size_t i = 0; i < OBJECTS; i++)
        spare[spare_count++] = &objects[i];
    sigaction(SIGPROF, &action, NULL);
    setitimer(ITIMER_PROF, &often, NULL);
    test_threads_run(THREADS + 2, thread, NULL);
    setitimer(ITIMER_PROF, &never, NULL);
    test_threads_check();
    assert_all_there();
    print_message("# %llu pops, %llu stops, %llu restarts\n", (unsigned long long)pops,
                  (unsigned long long)stops, (unsigned long long)sa_hot.aborts);
    if (sa_hot.aborts == 0)
        fail_msg("inconclusive: no sequence was restarted");
    assert_true(pops > 0 && stops > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_percpu_keeps_objects_through_interruptions),
    };

    if (!test_per_cpu()) {
        print_message("1..0 # SKIP caches are per thread here: nothing is ever restarted\n");
        return 0;
    }
    sa_percpu_delay = 2000; /* about a microsecond */
    sa_hot.rseq_offset = sa_rseq.offset;
    cpus = (int)sa_rseq.cpus;
    sa_hot.slab_guard[0] = sa_hot.slab_guard[1] = &empty;
    for (int cpu = 0; cpu < cpus; cpu++) {
        all[cpu] = test_slab_new(SLOTS);
        all[cpu]->header[CLS].state = sa_state_make(0, 10, SLOTS / 2);
        sa_hot.slabs[cpu] = all[cpu];
    }
    return cmocka_run_group_tests_name("percpu_abort", tests, NULL, NULL);
}
