/* SPDX-License-Identifier: Apache-2.0 */
/* A program for watch.py: each round allocates, and changes what is watched. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

int counter;

__attribute__((noinline)) void work(int i)
{
    char *p = malloc(40 + (size_t)i), *q = calloc(3, 50);

    p[0] = (char)i;
    q = realloc(q, 1000);
    q[0] = 0;
    counter += p[0] + q[0];
    free(p);
    free(q);
}

int main(void)
{
    for (int i = 0; i < 5; i++)
        work(i);
    printf("counter %d\n", counter);
    return 0;
}
