/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A block is freed twice on a stack that ends, in a page without access, where the caller's frame
 * would be: walking on from there faults, and the report ends as any other.
 *
 * EXPECT: double free: 0x[0-9a-f]+
 * ARGS: 64,300000 handler,default
 */
#include "test/outside/fatal/fatal.h"

#include <signal.h>
#include <sys/mman.h>

static void *block;

__attribute__((noinline)) static void twice(void)
{
    free(block);
    free(block);
    __asm__ volatile("" ::: "memory");
}

/* A handler of the program's must not be called for a fault of the report. */
static void handler(int number)
{
    (void)number;
    _exit(FATAL_SURVIVED);
}

int main(int argc, char **argv)
{
    char *stack = mmap(NULL, 131072, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (stack == MAP_FAILED || mprotect(stack, 65536, PROT_READ | PROT_WRITE) != 0)
        return 1;
    if (argc > 2 && argv[2][0] == 'h')
        signal(SIGSEGV, handler);
    fatal_pin();
    block = fatal_names(malloc(fatal_arg(argc, argv, 1)));
#if defined(__x86_64__)
    __asm__ volatile("mov %0, %%rsp\n\tcall *%1" ::"r"(stack + 65536), "r"(twice) : "memory");
#elif defined(__aarch64__)
    __asm__ volatile("mov sp, %0\n\tblr %1" ::"r"(stack + 65536), "r"(twice) : "memory");
#else
    return FATAL_SENSELESS;
#endif
    return FATAL_SURVIVED;
}
