/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profiles are made and freed while fork waits for a lock of stdio's that the same thread holds:
 * fork has closed the library's gate by then. Proves that nobody waits for ever, that a profile
 * cannot be made meanwhile, and that one that was freed meanwhile is freed in the end.
 */
#include "include/salloc/profile.h"
#include "test/outside/check.h"

#include <errno.h>
#include <pthread.h>
#include <sys/wait.h>

static FILE *file;
static int locked, forking, flusher; /* atomic */
static salloc_profile *(*snapshot)(enum salloc_profile_type);
static void (*profile_free)(salloc_profile *);

static void await(const int *flag)
{
    while (!__atomic_load_n(flag, __ATOMIC_ACQUIRE))
        usleep(1000);
}

/* Runs after the library's handler: from now on the gate is closed. */
static void prepare(void)
{
    __atomic_store_n(&forking, 1, __ATOMIC_RELEASE);
}

static void preinit(void)
{
    if (pthread_atfork(prepare, NULL, NULL) != 0)
        _exit(1);
}

__attribute__((section(".preinit_array"), used)) static void (*preinit_entry)(void) = preinit;

static void *hold(void *arg)
{
    salloc_profile *profile = snapshot(SALLOC_PROFILE_HEAP);

    REQUIRE(profile);
    flockfile(file);
    __atomic_store_n(&locked, 1, __ATOMIC_RELEASE);
    await(&forking);
    profile_free(profile);
    errno = 0;
    CHECK(!snapshot(SALLOC_PROFILE_HEAP) && errno == EAGAIN);
    funlockfile(file);
    return arg;
}

/* Holds the lock of the list of streams, which fork wants, while it waits for that of the
 * stream. */
static void *flush(void *arg)
{
    await(&locked);
    __atomic_store_n(&flusher, gettid(), __ATOMIC_RELEASE);
    fflush(NULL);
    return arg;
}

/* Until the other thread waits for the stream. Streams cannot be opened then. */
static void await_flush(void)
{
    char path[64], text[200] = {0}, *state = text;
    int fd;

    await(&flusher);
    snprintf(path, sizeof(path), "/proc/self/task/%d/stat", flusher);
    do {
        usleep(1000);
        REQUIRE((fd = open(path, O_RDONLY)) >= 0 && read(fd, text, sizeof(text) - 1) > 0);
        close(fd);
        REQUIRE((state = strrchr(text, ')')) != NULL);
    } while (state[2] != 'S');
}

/* Mappings of profiles, where the kernel shows names. */
static int mappings(void)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[1000];
    int n = 0;

    REQUIRE(maps);
    while (fgets(line, sizeof(line), maps))
        n += strstr(line, "salloc:profile") != NULL;
    fclose(maps);
    return n;
}

int main(void)
{
    pthread_t threads[2];
    int status;
    pid_t pid;

    check_begin();
    alarm(60); /* a dead-lock ends the test */
    snapshot = (salloc_profile * (*)(enum salloc_profile_type))
        dlsym(RTLD_DEFAULT, "salloc_snapshot_profile");
    profile_free = (void (*)(salloc_profile *))dlsym(RTLD_DEFAULT, "salloc_profile_free");
    file = fopen("/dev/null", "w");
    REQUIRE(snapshot && profile_free && file && fputs("buffered", file) >= 0);
    REQUIRE(pthread_create(&threads[0], NULL, hold, NULL) == 0);
    REQUIRE(pthread_create(&threads[1], NULL, flush, NULL) == 0);
    await_flush();
    pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
        alarm(20);
        profile_free(snapshot(SALLOC_PROFILE_HEAP));
        _exit(mappings() != 0);
    }
    REQUIRE(waitpid(pid, &status, 0) == pid);
    CHECK_SAYS(status == 0, "status %#x", (unsigned)status);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    profile_free(snapshot(SALLOC_PROFILE_HEAP));
    CHECK(mappings() == 0);
    return check_end();
}
