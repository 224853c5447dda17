/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Libraries come and go, one to the address of the other, while stacks are captured through them:
 * rules of the one must not be used for the other. Both ways of walking (sampling/stack/unwind.h)
 * and the return addresses that the functions know of themselves must agree. All the while a signal
 * comes 1000 times a second, in the middle of the loader too, and its handler does the same. usage:
 * unload LIBRARY... (any number, loaded in turns)
 */
#include "sampling/stack/stack.h"
#include "sampling/stack/unwind.h"
#include "test/outside/check.h"

#include <pthread.h>
#include <signal.h>
#include <sys/time.h>

#define ROUNDS  300
#define THREADS 2

struct seen {
    uintptr_t own[SA_STACK_MAX], libgcc[SA_STACK_MAX], returns[2];
    unsigned own_count, libgcc_count;
};

static _Thread_local struct seen seen;

__attribute__((noinline)) static void capture(const void *frame)
{
    seen.own_count = sa_stack_capture(frame, seen.own, SA_STACK_MAX);
    seen.libgcc_count = sa_unwind_libgcc(frame, seen.libgcc, SA_STACK_MAX);
}

__attribute__((noinline)) static void called_back(void)
{
    seen.returns[0] = (uintptr_t)__builtin_return_address(0);
    capture(__builtin_dwarf_cfa());
    __asm__ volatile("" ::: "memory");
}

__attribute__((noinline)) static void call(void (*plugin)(void (*)(void)))
{
    seen.returns[1] = (uintptr_t)__builtin_return_address(0);
    memset(seen.own, 0, sizeof(seen.own));
    plugin(called_back);
    CHECK(seen.own[0] == seen.returns[0]);
    CHECK(seen.own[2] == seen.returns[1]); /* [1] is in here */
    CHECK(seen.own_count == seen.libgcc_count);
    CHECK(memcmp(seen.own, seen.libgcc, seen.libgcc_count * sizeof(*seen.own)) == 0);
}

static void (*load(const char *path, void **ret_handle))(void (*)(void))
{
    void (*plugin)(void (*)(void));
    void *address;

    *ret_handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    REQUIRE(*ret_handle);
    address = dlsym(*ret_handle, "plugin_call");
    REQUIRE(address);
    memcpy(&plugin, &address, sizeof(plugin));
    return plugin;
}

/* Each call finds another library than the one before, mostly at the same address. */
static void take_turns(int count, char **paths)
{
    void *handle;
    uintptr_t before = 0;
    unsigned same = 0;

    for (int i = 0; i < ROUNDS; i++) {
        void (*plugin)(void (*)(void)) = load(paths[i % count], &handle);

        same += (uintptr_t)plugin == before;
        before = (uintptr_t)plugin;
        for (int n = 0; n < 10; n++) /* so often that the way is remembered */
            call(plugin);
        dlclose(handle);
    }
    CHECK_SAYS(same > ROUNDS / 2, "%u of %d at the address of the one before", same, ROUNDS);
}

struct job {
    char **paths;
    int count;
};

static void *take_turns_in_thread(void *arg)
{
    const struct job *job = arg;
    void *handle;

    for (int i = 0; i < ROUNDS; i++) {
        void (*plugin)(void (*)(void)) = load(job->paths[i % job->count], &handle);

        for (int n = 0; n < 20; n++)
            call(plugin);
        dlclose(handle);
    }
    return NULL;
}

#define SIGNALS_MIN 10

static unsigned interrupted, disagreed; /* atomic */

static void on_timer(int number)
{
    uintptr_t own[SA_STACK_MAX], libgcc[SA_STACK_MAX];
    unsigned n = sa_stack_capture(__builtin_dwarf_cfa(), own, SA_STACK_MAX);
    unsigned m = sa_unwind_libgcc(__builtin_dwarf_cfa(), libgcc, SA_STACK_MAX);

    (void)number;
    if (!m) /* libgcc's first call was interrupted */
        return;
    __atomic_fetch_add(&interrupted, 1, __ATOMIC_RELAXED);
    if (n < 2 || n != m || memcmp(own, libgcc, n * sizeof(*own)) != 0)
        __atomic_fetch_add(&disagreed, 1, __ATOMIC_RELAXED);
}

static void set_timer(int microseconds)
{
    struct itimerval timer = {{0, microseconds}, {0, microseconds}};
    struct sigaction action = {.sa_handler = on_timer, .sa_flags = SA_RESTART};

    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &timer, NULL);
}

int main(int argc, char **argv)
{
    struct job jobs[THREADS];
    pthread_t threads[THREADS];

    REQUIRE(argc > 2);
    set_timer(1000);
    do {
        take_turns(argc - 1, argv + 1);
        for (int i = 0; i < THREADS; i++) { /* at different points of the list, some alone */
            jobs[i] = (struct job){argv + 1 + i, argc - 1 - i};
            REQUIRE(pthread_create(&threads[i], NULL, take_turns_in_thread, &jobs[i]) == 0);
        }
        for (int i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
    } while (__atomic_load_n(&interrupted, __ATOMIC_RELAXED) <= SIGNALS_MIN);
    set_timer(0);
    CHECK_SAYS(disagreed == 0, "%u of %u", disagreed, interrupted);
    check_say("%u signals", interrupted);
    return check_end();
}
