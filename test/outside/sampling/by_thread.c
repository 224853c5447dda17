/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profiles by thread, with the option profile_threads: each thread's blocks are rows with its
 * number, in a child of fork, too, whose only thread has another number than in the parent.
 */
#include "include/salloc/profile.h"
#include "test/outside/check.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 4, SIZE = 5000 };

static unsigned tid_of[THREADS];
static void *block[THREADS];
static pthread_barrier_t done;

static unsigned self(void)
{
    return (unsigned)syscall(SYS_gettid);
}

static void *work(void *arg)
{
    size_t i = (size_t)arg;

    tid_of[i] = self();
    block[i] = malloc(SIZE + i * 1000);
    pthread_barrier_wait(&done); /* no number is used twice */
    return NULL;
}

struct asked {
    size_t requested;
    unsigned thread;
    uint64_t samples;
};

static int find(const struct salloc_profile_sample *sample, void *arg)
{
    struct asked *asked = arg;

    if (sample->requested_size == asked->requested) {
        asked->thread = sample->thread;
        asked->samples += sample->samples;
    }
    return 0;
}

/* The thread of the blocks of a size. */
static struct asked ask(size_t requested)
{
    salloc_profile *p = salloc_snapshot_profile(SALLOC_PROFILE_HEAP);
    struct asked asked = {requested, 0, 0};

    REQUIRE(p != NULL && salloc_profile_iterate(p, find, &asked) == 0);
    salloc_profile_free(p);
    return asked;
}

int main(void)
{
    pthread_t thread[THREADS];
    void *mine, *childs;
    int status;
    pid_t pid;

    check_begin();
    pthread_barrier_init(&done, NULL, THREADS);
    for (size_t i = 0; i < THREADS; i++)
        REQUIRE(pthread_create(&thread[i], NULL, work, (void *)i) == 0);
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    for (size_t i = 0; i < THREADS; i++)
        CHECK(ask(SIZE + i * 1000).thread == tid_of[i]);
    mine = malloc(SIZE / 2);
    CHECK(ask(SIZE / 2).thread == self());
    pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
        childs = malloc(SIZE / 3);
        CHECK(self() == (unsigned)getpid() && ask(SIZE / 3).thread == self());
        CHECK(ask(SIZE / 2).thread == (unsigned)getppid());
        free(childs);
        _exit(check_end());
    }
    REQUIRE(waitpid(pid, &status, 0) == pid);
    CHECK(status == 0);
    salloc_set_profile_threads(0);
    CHECK(ask(SIZE / 2).thread == 0 && ask(SIZE / 2).samples == 1);
    salloc_set_profile_threads(1);
    CHECK(ask(SIZE / 2).thread == self());
    free(mine);
    for (size_t i = 0; i < THREADS; i++)
        free(block[i]);
    return check_end();
}
