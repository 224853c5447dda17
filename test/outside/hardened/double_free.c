/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A block is freed again, after so many others were, by this thread or another one: found at once.
 * In the mode with nothing but a quarantine, that has room for all of them (30 MB). Nothing is
 * allocated in between, not even for the other thread, or its memory might be a block of others by
 * then.
 *
 * EXPECT: double free: 0x[0-9a-f]+
 * ARGS: 1,16,100,1000,9000,100000 0,1,2,30,300 here,there
 * ARGS: 300000,1048576 0,1,30 here,there
 */
#include "test/outside/fatal/fatal.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <string.h>

static sem_t go;
static void *p;

static void *freer(void *arg)
{
    (void)arg;
    while (sem_wait(&go) != 0)
        ;
    free(p);
    return NULL;
}

int main(int argc, char **argv)
{
    size_t size = fatal_arg(argc, argv, 1), others = fatal_arg(argc, argv, 2);
    bool there = argc > 3 && strcmp(argv[3], "there") == 0;
    void *v[300];
    pthread_t thread;

    if (sem_init(&go, 0, 0) != 0 || (there && pthread_create(&thread, NULL, freer, NULL) != 0))
        return 1;
    p = malloc(size);
    for (size_t i = 0; i < others; i++)
        v[i] = malloc(size);
    fatal_names(p);
    free(p);
    for (size_t i = 0; i < others; i++)
        free(v[i]);
    if (there) {
        sem_post(&go);
        pthread_join(thread, NULL);
    } else {
        free(p);
    }
    return FATAL_SURVIVED;
}
