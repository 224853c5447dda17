/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nothing is wrong, and nothing is said: every byte that malloc_usable_size allows is used.
 *
 * EXPECT:
 * SIGNAL: 0
 */
#include "test/outside/guarded/planted.h"

#include <malloc.h>

int main(void)
{
    enum { BLOCKS = 500 };
    static char *v[BLOCKS];

    for (size_t i = 0; i < 20000; i++) {
        size_t k = i * 7919 % BLOCKS, size = i * i % (i % 50 ? 9000 : 400000);

        if (i % 3 == 0)
            v[k] = realloc(v[k], size + 1);
        else if (i % 3 == 1 && (i & 1)) {
            free(v[k]);
            if (posix_memalign((void **)&v[k], 16ul << i % 9, size) != 0)
                return 1;
        } else {
            free(v[k]);
            v[k] = calloc(1, size);
        }
        if (!v[k])
            return 1;
        memset(v[k], (int)i, malloc_usable_size(v[k]));
    }
    for (size_t k = 0; k < BLOCKS; k++)
        free(v[k]);
    return 0;
}
