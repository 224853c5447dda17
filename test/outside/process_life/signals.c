/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A profiler's signal at 10 kHz and an affinity that changes all the time, while threads allocate:
 * critical sections are interrupted and migrated. Proves that contents survive. It goes on until
 * there were many signals and, with caches per CPU, a section was restarted: otherwise nothing was
 * shown.
 */
#include "test/outside/check.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/time.h>

enum { LIVE = 512, THREADS = 3, HITS = 1000 };

static int stop;  /* atomic */
static long hits; /* atomic */

static void handle(int number)
{
    (void)number;
    __atomic_fetch_add(&hits, 1, __ATOMIC_RELAXED);
}

static void *work(void *arg)
{
    static __thread unsigned char *v[LIVE];
    static __thread size_t size[LIVE];
    uint64_t seed = (uintptr_t)arg * 99991;

    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        uint64_t r = check_random(&seed);
        size_t k = r % LIVE;

        if (v[k])
            REQUIRE(v[k][0] == (unsigned char)k && v[k][size[k] - 1] == (unsigned char)k);
        free(v[k]);
        size[k] = 1 + (r >> 9) % (r >> 56 ? 1000 : 300000);
        v[k] = malloc(size[k]);
        REQUIRE(v[k]);
        v[k][0] = v[k][size[k] - 1] = (unsigned char)k;
    }
    for (size_t k = 0; k < LIVE; k++)
        free(v[k]);
    return NULL;
}

/* Whether what the test is about has happened. */
static bool enough(void)
{
    return __atomic_load_n(&hits, __ATOMIC_RELAXED) > HITS &&
           (!check_property("tcmalloc.per_cpu_caches_active") ||
            check_property("salloc.sections_restarted") > 0);
}

int main(void)
{
    struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};
    struct itimerval fast = {{0, 100}, {0, 100}}, off = {{0, 0}, {0, 0}};
    pthread_t threads[THREADS];
    cpu_set_t allowed;
    double end;

    check_begin();
    alarm(150); /* long enough on any machine */
    REQUIRE(sched_getaffinity(0, sizeof(allowed), &allowed) == 0);
    REQUIRE(sigaction(SIGPROF, &action, NULL) == 0);
    for (uintptr_t i = 0; i < THREADS; i++)
        REQUIRE(pthread_create(&threads[i], NULL, work, (void *)(i + 1)) == 0);
    REQUIRE(setitimer(ITIMER_PROF, &fast, NULL) == 0);
    end = check_now() + check_seconds(5);
    for (unsigned turn = 0; check_now() < end || !enough(); turn++) {
        cpu_set_t one;
        unsigned cpu = turn % CPU_SETSIZE, looked = 0;

        while (!CPU_ISSET(cpu, &allowed) && looked++ < CPU_SETSIZE)
            cpu = (cpu + 1) % CPU_SETSIZE;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        pthread_setaffinity_np(threads[turn % THREADS], sizeof(one), turn % 5 ? &one : &allowed);
        pthread_kill(threads[(turn + 1) % THREADS], SIGPROF);
        usleep(50);
    }
    setitimer(ITIMER_PROF, &off, NULL);
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    check_say("%ld signals, %zu sections restarted", hits,
              check_property("salloc.sections_restarted"));
    return check_end();
}
