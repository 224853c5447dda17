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

/* Vector registers keep what was last moved through them, two words at a time or more. */
static void clear_registers(void)
{
#ifdef __x86_64__
    static struct {
        _Alignas(64) char legacy[24];
        unsigned mxcsr;
        char rest[548];
    } zeros = {.mxcsr = 0x1f80};

    /* All that the processor has, whose number and size differ: to the initial state, zeros. */
    if (__builtin_cpu_supports("avx"))
        __asm__ volatile("xrstor %0" ::"m"(zeros), "a"(0xe6), "d"(0)
                         : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8",
                           "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
#endif
}

__attribute__((noinline, noclone)) static void clear_below(void)
{
    char volatile below[131072];

    memset((void *)below, 0, sizeof(below));
    __asm__ volatile("" ::"r"(below) : "memory");
    clear_registers();
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
