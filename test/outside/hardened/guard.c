/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A large block is overrun, or used after it was freed: the access itself faults. The handler is
 * the program's own.
 *
 * EXPECT: caught at 0x[0-9a-f]+
 * NAMES: none
 * ARGS: 262144,300000,1048576,5000000 overrun,freed,moved
 */
#include "test/outside/fatal/fatal.h"

#include <signal.h>
#include <string.h>

static void caught(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)context;
    dprintf(STDOUT_FILENO, "0x%lx\n", (unsigned long)(uintptr_t)info->si_addr);
    dprintf(STDERR_FILENO, "salloc: caught at 0x%lx\n", (unsigned long)(uintptr_t)info->si_addr);
    abort();
}

int main(int argc, char **argv)
{
    struct sigaction action = {.sa_sigaction = caught, .sa_flags = SA_SIGINFO};
    size_t size = fatal_arg(argc, argv, 1);
    const char *how = argc > 2 ? argv[2] : "";
    volatile char *p = malloc(size);

    sigaction(SIGSEGV, &action, NULL);
    if (strcmp(how, "overrun") == 0) {
        for (size_t i = 0; i < size + 16384; i++)
            p[i] = 1;
    } else if (strcmp(how, "freed") == 0) {
        free((void *)p);
        p[size / 2] = 1;
    } else {
        FATAL_IGNORE(realloc((void *)p, size * 3));
        p[size / 2] = 1;
    }
    return FATAL_SURVIVED;
}
