/* SPDX-License-Identifier: Apache-2.0 */
/* Carries out a plant; see leaker.h. */
#include "test/outside/tool/leaker.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Far below the frames that wait later, so that no old word points to what is lost. */
__attribute__((noinline, noclone)) static void make_below(void (*make)(void))
{
    char volatile below[65536];

    below[0] = below[sizeof(below) - 1] = 0;
    make();
    __asm__ volatile("" ::"r"(below) : "memory");
}

__attribute__((noinline, noclone)) static void clear_below(void)
{
    char volatile below[131072];

    memset((void *)below, 0, sizeof(below));
    __asm__ volatile("" ::"r"(below) : "memory");
}

/* Carries out the plant of the name, or prints the names of all. */
static void run(const struct plant *plants, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (!name)
            puts(plants[i].name);
        for (int n = 0; name && strcmp(name, plants[i].name) == 0 && n < SHAPES; n++)
            if (n == 0 || !plants[i].once)
                make_below(plants[i].make);
    }
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : NULL;
    char byte, line[64];

    run(lost, lost_count, name);
    run(kept, kept_count, name);
    clear_below();
    /* Not by a stream, which would allocate a buffer and free it when this has been read. */
    snprintf(line, sizeof(line), "%zu %zu ready\n", lost_blocks, lost_bytes);
    if (write(1, line, strlen(line)) < 0)
        return 1;
    while (name && read(0, &byte, 1) > 0)
        continue;
    return 0;
}
