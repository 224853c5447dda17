/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of every kind for info.py, which stops the program in `ready`. What is sampled is a matter
 * of SALLOC_CONF. */
#include "test/outside/check.h"

enum { MANY = 3000, MANY_BYTES = 752 };

char *live, *freed, *large, *large_freed, *several, *foreign, *many[MANY];

void ready(void);
void __attribute__((noinline)) ready(void)
{
    __asm__ volatile("" : : : "memory");
}

static char __attribute__((noinline)) * allocate(size_t size)
{
    char *p = malloc(size);

    REQUIRE(p);
    memset(p, 1, size);
    return p;
}

int main(void)
{
    static char outside[16];

    foreign = outside;
    live = allocate(100);
    freed = allocate(200);
    several = allocate(5000); /* its span has several pages */
    large = allocate(3000000);
    large_freed = allocate(5000000);
    for (int i = 0; i < MANY; i++)
        many[i] = allocate(MANY_BYTES);
    for (int i = 0; i < MANY; i += 3)
        free(many[i]);
    free(freed);
    free(large_freed);
    ready();
    return check_end();
}
