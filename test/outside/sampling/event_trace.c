/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Event traces, with every block sampled: each allocation and free is there once, in order, with
 * what the program knows of it; a ring that is too small keeps the last events and counts the rest;
 * threads; a child of fork, which has the trace, too; files.
 *
 * usage: event_trace FOLDER           the tests
 *        event_trace FOLDER files     writes FOLDER/events.{pb.gz,json,txt} for event_files.py
 */
#include "include/salloc/salloc.h"
#include "test/outside/check.h"

#include <errno.h>
#include <pthread.h>
#include <sys/wait.h>

#define BLOCKS  500
#define THREADS 4

static __attribute__((noinline)) void *make(size_t size)
{
    void *p = malloc(size);

    CHECK_OPAQUE(p);
    return p;
}

static __attribute__((noinline)) void drop(void *p)
{
    free(p);
    CHECK_OPAQUE(p);
}

static struct salloc_sample_event events[200000];
static size_t count;

static int collect(const struct salloc_sample_event *event, void *arg)
{
    REQUIRE(arg == &count && count < sizeof(events) / sizeof(events[0]));
    events[count++] = *event;
    return 0;
}

static salloc_profile *stop(salloc_profile_token *token, struct salloc_profile_info *info)
{
    salloc_profile *profile = salloc_profile_token_stop(token);

    REQUIRE(profile);
    info->size = sizeof(*info);
    REQUIRE(salloc_profile_get_info(profile, info) == 0);
    CHECK(info->type == SALLOC_PROFILE_EVENTS);
    count = 0;
    CHECK(salloc_profile_iterate_events(profile, collect, &count) == 0);
    CHECK_SAYS(count == info->events, "%zu, %zu", count, (size_t)info->events);
    return profile;
}

static int64_t time_of(const struct salloc_sample_event *e)
{
    return e->event == SALLOC_EVENT_FREED ? e->free_time_ns : e->time_ns;
}

/* Events are in the order of time, and each block's in theirs. */
static void check_order(void)
{
    uint64_t last = 0;

    for (size_t i = 0; i < count; i++) {
        const struct salloc_sample_event *e = &events[i];

        CHECK(e->size == sizeof(*e) && (i == 0 || time_of(e) >= time_of(e - 1)));
        if (e->event == SALLOC_EVENT_ALLOCATED) {
            CHECK(e->handle > last);
            last = e->handle;
        } else {
            CHECK(e->free_time_ns >= e->time_ns && e->free_thread != 0);
        }
    }
}

static void test_each_event(const char *folder)
{
    struct salloc_profile_info info;
    void *blocks[BLOCKS], *before = make(77777);
    salloc_profile_token *token = salloc_start_event_trace(1 << 20);
    salloc_profile *profile;
    struct salloc_estimate e;
    char path[4096];

    REQUIRE(token);
    for (size_t i = 0; i < BLOCKS; i++)
        blocks[i] = make(i * 13);
    drop(before);
    for (size_t i = 0; i < BLOCKS; i++)
        drop(blocks[i]);
    profile = stop(token, &info);
    check_order();
    CHECK_SAYS(count == 2 * BLOCKS + 1 && info.events_lost == 0, "%zu", count);
    CHECK(info.samples == BLOCKS && info.duration_ns > 0);
    for (size_t i = 0; i < BLOCKS; i++) {
        const struct salloc_sample_event *a = &events[i], *f = &events[BLOCKS + 1 + i];

        CHECK(a->event == SALLOC_EVENT_ALLOCATED && a->requested_size == i * 13);
        CHECK(a->address == blocks[i] && a->weight == 1 && a->depth > 0 && !a->free_stack);
        CHECK(a->thread == (unsigned)getpid() && a->cpu >= 0 && a->free_time_ns == 0);
        CHECK(f->event == SALLOC_EVENT_FREED && f->handle == a->handle && f->time_ns == a->time_ns);
        CHECK(f->address == blocks[i] && f->requested_size == i * 13 && f->free_depth > 0);
    }
    CHECK(events[BLOCKS].event == SALLOC_EVENT_FREED && events[BLOCKS].requested_size == 77777);
    CHECK(salloc_profile_estimate(profile, NULL, 0, SALLOC_ESTIMATE_WEIGHTED, 0.95, &e) == 0);
    CHECK_SAYS(e.count == BLOCKS, "%g", e.count);
    CHECK(salloc_profile_iterate_samples(profile, NULL, NULL) == -1);
    snprintf(path, sizeof(path), "%s/events.%d.heap", folder, (int)getpid());
    CHECK(salloc_profile_write_file(profile, path) == 0);
    unlink(path);
    salloc_profile_free(profile);
    CHECK(salloc_profile_token_stop(token) == NULL && errno == EINVAL);
}

static void test_small_ring(void)
{
    struct salloc_profile_info info;
    salloc_profile_token *token = salloc_start_event_trace(1);

    REQUIRE(token);
    for (int i = 0; i < BLOCKS; i++)
        drop(make(100));
    salloc_profile_free(stop(token, &info));
    check_order();
    CHECK_SAYS(count > 16 && count < BLOCKS, "%zu", count);
    CHECK(info.events + info.events_lost == 2 * BLOCKS);
    CHECK(events[count - 1].event == SALLOC_EVENT_FREED);
}

static void test_errors(const char *folder)
{
    char path[4096];
    salloc_profile *profile = salloc_snapshot_profile(SALLOC_PROFILE_HEAP);

    errno = 0;
    CHECK(salloc_start_event_trace(0) == NULL && errno == EINVAL);
    CHECK(salloc_snapshot_profile(SALLOC_PROFILE_EVENTS) == NULL && errno == EINVAL);
    errno = 0;
    CHECK(salloc_profile_iterate_events(profile, collect, &count) == -1 && errno == EINVAL);
    CHECK(salloc_profile_iterate_events(NULL, collect, &count) == -1 && errno == EINVAL);
    snprintf(path, sizeof(path), "%s/heap.%d.json", folder, (int)getpid());
    errno = 0;
    CHECK(salloc_profile_write_file(profile, path) == -1 && errno == EINVAL);
    CHECK(access(path, F_OK) != 0);
    salloc_profile_free(profile);
}

static void *worker(void *arg)
{
    uint64_t rng = (uintptr_t)arg;
    void *own[64] = {NULL};

    for (int k = 0; k < 20000; k++) {
        size_t i = check_random(&rng) % 64;

        free(own[i]);
        own[i] = malloc(check_random(&rng) % 3000);
    }
    for (int i = 0; i < 64; i++)
        free(own[i]);
    return NULL;
}

/* Two traces at a time, and threads that allocate, while others start and end. */
static void test_threads(void)
{
    struct salloc_profile_info large, small;
    salloc_profile_token *token = salloc_start_event_trace(24 << 20), *other;
    salloc_profile *profile;
    pthread_t threads[THREADS];
    int alive = 0;

    other = salloc_start_event_trace(100000);
    REQUIRE(token && other);
    for (uintptr_t i = 0; i < THREADS; i++)
        REQUIRE(pthread_create(&threads[i], NULL, worker, (void *)(i + 1)) == 0);
    for (int i = 0; i < 20; i++) {
        salloc_profile_token *third = salloc_start_event_trace(1 << 16);

        REQUIRE(third);
        usleep(1000);
        salloc_profile_free(salloc_profile_token_stop(third));
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    profile = stop(other, &small);
    check_order();
    CHECK(small.events_lost > 0);
    salloc_profile_free(profile);
    profile = stop(token, &large);
    check_order();
    CHECK_SAYS(count >= 2 * THREADS * 20000 - 64 && large.events_lost == 0, "%zu", count);
    CHECK_SAYS(large.events >= small.events + small.events_lost, "%zu", count);
    for (size_t i = 0; i < count; i++)
        alive += events[i].event == SALLOC_EVENT_FREED ? -1 : 1;
    CHECK_SAYS(alive < 50, "%d", alive); /* what libc keeps of threads */
    salloc_profile_free(profile);
}

static void test_fork(void)
{
    struct salloc_profile_info info;
    salloc_profile_token *token = salloc_start_event_trace(1 << 20);
    int status;
    pid_t child;

    REQUIRE(token);
    drop(make(1234));
    child = fork();
    if (child == 0) {
        drop(make(4321));
        stop(token, &info);
        _exit(events[count - 2].requested_size == 4321 && events[0].requested_size == 1234 &&
                      check_failures == 0
                  ? 0
                  : 1);
    }
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    drop(make(5555));
    salloc_profile_free(stop(token, &info));
    CHECK(events[count - 1].requested_size == 5555);
}

static void *thread_named(void *arg)
{
    pthread_setname_np(pthread_self(), "worker \"7\"");
    *(void **)arg = make(3000);
    usleep(1000);
    return NULL;
}

static void write_files(const char *folder)
{
    static const char *const endings[] = {".pb.gz", ".json", ".txt"};
    struct salloc_profile_info info;
    salloc_profile_token *token = salloc_start_event_trace(1 << 20);
    salloc_profile *profile;
    pthread_t thread;
    void *p;

    REQUIRE(token);
    for (int i = 0; i < 10; i++)
        drop(make(1000));
    REQUIRE(pthread_create(&thread, NULL, thread_named, &p) == 0);
    pthread_join(thread, NULL);
    drop(p);
    profile = stop(token, &info);
    for (int i = 0; i < 3; i++) {
        char path[4096];

        snprintf(path, sizeof(path), "%s/events%s", folder, endings[i]);
        REQUIRE(salloc_profile_write_file(profile, path) == 0);
    }
    for (size_t i = 0; i < count; i++)
        check_say("%llu %d %lld %lld %zu %zu %u %d", (unsigned long long)events[i].handle,
                  (int)events[i].event, (long long)events[i].time_ns,
                  (long long)events[i].free_time_ns, events[i].requested_size,
                  events[i].allocated_size,
                  events[i].event ? events[i].free_thread : events[i].thread,
                  events[i].event ? events[i].free_cpu : events[i].cpu);
    salloc_profile_free(profile);
}

int main(int argc, char **argv)
{
    check_begin();
    REQUIRE(argc >= 2);
    salloc_set_sampling_interval(1);
    drop(make(100));
    if (argc > 2) {
        write_files(argv[1]);
        return check_end();
    }
    test_each_event(argv[1]);
    test_small_ring();
    test_errors(argv[1]);
    test_fork();
    test_threads();
    return check_end();
}
