/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frees a block twice: at once, later, or from another thread.
 *
 * EXPECT: double free: 0x[0-9a-f]+ lies in memory that is free, at offset 0 of a freed block of
 *         [0-9]+ bytes
 * SIGNAL: SIGABRT
 * STACKS: freed=drop freed=drop_again allocated=make
 * ARGS: 1,16,100,1024,8192,8193,100000,262144,300000,5000000 0,1,20 0,1
 */
#include "test/outside/guarded/planted.h"

PLANTED_FUNCTION void *drop_again(void *p)
{
    free(p);
    PLANTED_END;
    return NULL;
}

int main(int argc, char **argv)
{
    size_t size = (size_t)planted_arg(argc, argv, 1),
           meanwhile = (size_t)planted_arg(argc, argv, 2);
    char *p = make(size);
    pthread_t thread;

    drop(p);
    delay(meanwhile, size);
    if (planted_arg(argc, argv, 3) == 0)
        drop_again(p);
    else if (pthread_create(&thread, NULL, drop_again, p) == 0)
        pthread_join(thread, NULL);
    return PLANTED_SURVIVED;
}
