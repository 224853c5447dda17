/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread uses a block that another thread has freed.
 *
 * EXPECT: use after free: 0x[0-9a-f]+ write at offset 0 of a freed block of [0-9]+ bytes
 * SIGNAL: SIGSEGV
 * STACKS: written=touch_write freed=drop allocated=make
 * ARGS: 16,1000,8192,100000,1000000
 */
#include "test/outside/guarded/planted.h"

static void *free_it(void *p)
{
    drop(p);
    return NULL;
}

int main(int argc, char **argv)
{
    for (int i = 0; i < PLANTED_TIMES; i++) {
        char *p = make((size_t)planted_arg(argc, argv, 1));
        pthread_t thread;

        if (pthread_create(&thread, NULL, free_it, p) != 0)
            return 1;
        pthread_join(thread, NULL);
        touch_write(p);
    }
    return PLANTED_SURVIVED;
}
