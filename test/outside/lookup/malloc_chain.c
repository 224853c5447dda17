/* SPDX-License-Identifier: Apache-2.0 */
/* Runs with a malloc that wraps another one (malloc_hook.c), before or behind the library: blocks
 * cross none, and nothing calls itself. usage: malloc_chain before|behind */
#include "test/outside/check.h"

#include <pthread.h>

static void *work(void *arg)
{
    for (int i = 0; i < 300; i++) {
        char *line = NULL, *p = malloc((size_t)i * 37 + 1);

        CHECK(p);
        p = realloc(p, (size_t)i * 53 + 1);
        free(p);
        CHECK(asprintf(&line, "%d of %s", i, (char *)arg) > 0);
        free(line);
        line = strdup("text");
        free(line);
        free(calloc(3, (size_t)i + 1));
        p = reallocarray(NULL, 10, 10);
        free(p);
        p = aligned_alloc(64, 640);
        CHECK(p && malloc_usable_size(p) >= 640);
        free(p);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    unsigned long (*calls)(void) =
        (unsigned long (*)(void))dlsym(RTLD_DEFAULT, "malloc_hook_calls");
    char *(*copy)(const char *) = (char *(*)(const char *))dlsym(RTLD_DEFAULT, "malloc_hook_copy");
    void *libc = dlopen("libc.so.6", RTLD_LAZY);
    void (*release)(void *) = (void (*)(void *))dlsym(libc, "free");
    void *(*get)(size_t) = (void *(*)(size_t))dlsym(libc, "malloc");
    pthread_t threads[3];

    REQUIRE(argc == 2 && calls && copy && release && get);
    alarm(20);
    for (int i = 0; i < 3; i++)
        REQUIRE(pthread_create(&threads[i], NULL, work, "thread") == 0);
    work("main");
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    free(copy("from the wrapper's own malloc"));
    release(copy("freed by name"));
    release(strdup("freed by name"));
    free(get(100));
    if (strcmp(argv[1], "before") == 0)
        CHECK_SAYS(calls() > 10000, "%lu calls", calls());
    return check_end();
}
