/* SPDX-License-Identifier: Apache-2.0 */
/* A library for loading.c: its constructor waits, under the loader's lock, for a thread that
 * allocates for the first time. */
#include <pthread.h>
#include <stdlib.h>

static void *work(void *arg)
{
    void *volatile p = malloc(100);

    free(p);
    p = malloc(1000000);
    free(p);
    return arg;
}

__attribute__((constructor)) static void constructor(void)
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, work, NULL) == 0)
        pthread_join(thread, NULL);
}
