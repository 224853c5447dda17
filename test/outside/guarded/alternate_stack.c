/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bug is in a handler of a signal that runs on an alternate stack, of the smallest size that
 * leaves room for a second signal or with room to spare; the stacks of the handler and of what it
 * has interrupted are one.
 *
 * EXPECT: use after free: 0x[0-9a-f]+ write at offset 0 of a freed block of 100 bytes
 * SIGNAL: SIGSEGV
 * STACKS: written=touch_write freed=drop allocated=make
 * ARGS: 0,65536
 */
#include "test/outside/guarded/planted.h"

#include <sys/mman.h>

static char *volatile freed;

static void handler(int number)
{
    touch_write(freed + (number - SIGUSR1));
}

int main(int argc, char **argv)
{
    /* What the kernel puts on it, twice, and what the report needs: as doc/hardening.md says. */
    size_t min = (size_t)sysconf(_SC_MINSIGSTKSZ) * 2 + 4096,
           more = (size_t)planted_arg(argc, argv, 1);
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
    size_t bytes = (min + more + 4095) / 4096 * 4096;
    char *p = mmap(NULL, bytes + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    stack_t stack = {.ss_sp = p + 4096, .ss_size = bytes};

    if (p == MAP_FAILED || mprotect(p, 4096, PROT_NONE) != 0 || sigaltstack(&stack, NULL) != 0 ||
        sigaction(SIGUSR1, &action, NULL) != 0)
        return 1;
    freed = make(100);
    drop(freed);
    raise(SIGUSR1);
    return PLANTED_SURVIVED;
}
