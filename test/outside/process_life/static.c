/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A statically linked program: libsalloc.a takes the place of libc's malloc, in the main thread, in
 * others and across fork. dlopen, which the archive has a wrapper of, opens libraries and fails as
 * libc's does. Misuse is noticed, which tells that the library answers.
 */
#include "test/outside/check.h"

#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

const char *salloc_version(void);
char *salloc_get_stats(void);

static void *work(void *arg)
{
    uint64_t seed = (uintptr_t)arg;
    unsigned char *v[100] = {NULL};

    for (int i = 0; i < 50000; i++) {
        uint64_t r = check_random(&seed);
        size_t k = r % 100;

        if (v[k])
            REQUIRE(v[k][0] == k);
        free(v[k]);
        v[k] = r >> 20 & 1 ? malloc(1 + (r >> 30) % 2000) : memalign(64, 1 + (r >> 30) % 200000);
        REQUIRE(v[k]);
        v[k][0] = (unsigned char)k;
    }
    for (size_t k = 0; k < 100; k++)
        free(v[k]);
    return NULL;
}

/* Of a library that is there (the C library, with a malloc of its own) only where it is of the
 * version linked with. */
static void test_dlopen(void)
{
    void *handle = dlopen("/nowhere/libnothing.so", RTLD_NOW);
    const char *error = dlerror();
    char *(*copy)(const char *), *text;
    void (*release)(void *);

    CHECK(!handle && error && strstr(error, "libnothing.so"));
    handle = dlopen("libc.so.6", RTLD_NOW | RTLD_DEEPBIND);
    error = dlerror();
    CHECK(!handle == !!error);
    if (!handle)
        return;
    copy = (char *(*)(const char *))dlsym(handle, "strdup");
    release = (void (*)(void *))dlsym(handle, "free");
    REQUIRE(copy && release);
    text = copy("twelve bytes");
    CHECK(text && strcmp(text, "twelve bytes") == 0);
    release(text);
    CHECK(dlclose(handle) == 0);
}

int main(void)
{
    pthread_t threads[3];
    char *stats = salloc_get_stats();
    int status;
    pid_t pid;

    REQUIRE(stats && strlen(stats) > 500 && salloc_version()[0]);
    free(stats);
    test_dlopen();
    for (uintptr_t i = 0; i < 3; i++)
        REQUIRE(pthread_create(&threads[i], NULL, work, (void *)(i + 1)) == 0);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
        work((void *)9);
        _exit(0);
    }
    REQUIRE(waitpid(pid, &status, 0) == pid && status == 0);
    pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
        const struct rlimit none = {0, 0};
        char *p = malloc(1 << 20);

        setrlimit(RLIMIT_CORE, &none);
        close(STDERR_FILENO);
        free(p + 100);
        _exit(0);
    }
    REQUIRE(waitpid(pid, &status, 0) == pid);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    return check_end();
}
