/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A large block that another thread has freed is freed again.
 *
 * EXPECT: double free: 0x[0-9a-f]+
 * ARGS: 262145,300000,524288,1048576,3000000,33554432
 */
#include "test/outside/fatal/fatal.h"

#include <pthread.h>

static void *freer(void *p)
{
    free(p);
    return NULL;
}

int main(int argc, char **argv)
{
    void *p = fatal_names(malloc(fatal_arg(argc, argv, 1)));
    pthread_t thread;

    if (pthread_create(&thread, NULL, freer, p) != 0 || pthread_join(thread, NULL) != 0)
        return 1;
    free(p);
    return FATAL_SURVIVED;
}
