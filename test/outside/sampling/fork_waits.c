/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fork waits, in a handler of the program's that runs while the library is stopped, for a thread
 * that uses the profile functions. Proves that each of them returns then, with EAGAIN, and leaves
 * everything as it was: recordings go on, and what was to be freed is.
 */
#include "include/salloc/profile.h"
#include "test/outside/check.h"

#include <errno.h>
#include <pthread.h>
#include <sys/wait.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int waiting; /* atomic: fork is */
static bool watch;
static salloc_profile_token *token;
static salloc_profile *profile;

static void before(void)
{
    if (!watch)
        return;
    __atomic_store_n(&waiting, 1, __ATOMIC_RELEASE);
    pthread_mutex_lock(&mutex);
}

static void after(void)
{
    if (watch)
        pthread_mutex_unlock(&mutex);
}

static void register_early(void)
{
    pthread_atfork(before, after, after);
}

/* Before the library's constructor, so that its handler has run when ours does. */
__attribute__((section(".preinit_array"), used)) static void (*const early)(void) = register_early;

static int count_samples(const struct salloc_profile_sample *s, void *arg)
{
    *(double *)arg += s->alloc_count;
    return 0;
}

static void *use(void *arg)
{
    salloc_profile *more;

    pthread_mutex_lock(&mutex);
    __atomic_store_n((int *)arg, 1, __ATOMIC_RELEASE);
    while (!__atomic_load_n(&waiting, __ATOMIC_ACQUIRE))
        usleep(1000);
    usleep(20000);
    errno = 0;
    more = salloc_snapshot_profile(SALLOC_PROFILE_HEAP);
    CHECK(!more && errno == EAGAIN);
    errno = 0;
    CHECK(!salloc_start_allocation_profile() && errno == EAGAIN);
    errno = 0;
    CHECK(!salloc_start_lifetime_profile() && errno == EAGAIN);
    errno = 0;
    CHECK(!salloc_profile_token_stop(token) && errno == EAGAIN);
    errno = 0;
    CHECK(salloc_set_sampling_interval(4096) == -1 && errno == EAGAIN);
    CHECK(salloc_get_sampling_interval() == 1);
    errno = 123;
    salloc_profile_free(profile);
    CHECK(errno == 123);
    pthread_mutex_unlock(&mutex);
    return NULL;
}

int main(void)
{
    double count = 0;
    int locked = 0, status;
    void *blocks[10];
    pthread_t thread;
    pid_t pid;

    check_begin();
    alarm(60);
    REQUIRE(salloc_set_sampling_interval(1) == 0);
    profile = salloc_snapshot_profile(SALLOC_PROFILE_HEAP);
    REQUIRE(profile);
    REQUIRE(pthread_create(&thread, NULL, use, &locked) == 0);
    while (!__atomic_load_n(&locked, __ATOMIC_ACQUIRE))
        usleep(1000);
    token = salloc_start_allocation_profile();
    REQUIRE(token);
    for (int i = 0; i < 10; i++)
        blocks[i] = malloc(100);
    watch = true;
    pid = fork();
    watch = false;
    REQUIRE(pid >= 0);
    profile = salloc_profile_token_stop(token);
    CHECK(profile && salloc_profile_iterate(profile, count_samples, &count) == 0);
    CHECK_SAYS(count == 10, "%g blocks", count);
    salloc_profile_free(profile);
    if (pid == 0)
        _exit(check_end());
    REQUIRE(waitpid(pid, &status, 0) == pid);
    CHECK_SAYS(status == 0, "the child ended with %#x", (unsigned)status);
    pthread_join(thread, NULL);
    for (int i = 0; i < 10; i++)
        free(blocks[i]);
    return check_end();
}
