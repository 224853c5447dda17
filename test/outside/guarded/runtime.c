/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program like a virtual machine: its handler was there first, runs on an alternate stack with
 * its own mask, and repairs faults of its own all the time, also where pages are inaccessible. It
 * sees each of them just as without us. What is in a guarded block is reported, and comes to it,
 * too.
 *
 * EXPECT: use after free: 0x[0-9a-f]+ write at offset 0 of a freed block of 100 bytes
 * SIGNAL: 42
 * STACKS: written=touch_write freed=drop allocated=make
 */
#include "test/outside/guarded/planted.h"

#include <sys/mman.h>

enum { FAULTS = 1000, PAGE = 65536 };

static char *page;
static char stack_memory[65536];
static volatile int repaired, wrong;

static void handler(int number, siginfo_t *info, void *context)
{
    sigset_t blocked;
    char here;

    (void)context;
    sigprocmask(SIG_BLOCK, NULL, &blocked);
    wrong |= number != SIGSEGV || info->si_code != SEGV_ACCERR;
    wrong |= &here < stack_memory || &here >= stack_memory + sizeof(stack_memory);
    wrong |= !sigismember(&blocked, SIGUSR1) || sigismember(&blocked, SIGUSR2) ||
             sigismember(&blocked, SIGSEGV);
    if (wrong || (char *)info->si_addr != page + 100)
        _exit(wrong || repaired != FAULTS ? 1 : 42);
    repaired++;
    mprotect(page, PAGE, PROT_READ | PROT_WRITE);
}

__attribute__((constructor)) static void before_anything_is_allocated(void)
{
    struct sigaction action = {.sa_sigaction = handler,
                               .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
    stack_t stack = {.ss_sp = stack_memory, .ss_size = sizeof(stack_memory)};

    sigaddset(&action.sa_mask, SIGUSR1);
    sigaltstack(&stack, NULL);
    sigaction(SIGSEGV, &action, NULL);
}

int main(void)
{
    char *p;

    page = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return 1;
    delay(10, 100); /* our handler is there now */
    for (int i = 0; i < FAULTS; i++) {
        mprotect(page, PAGE, PROT_NONE);
        touch_write(page + 100);
    }
    p = make(100);
    drop(p);
    touch_write(p);
    return PLANTED_SURVIVED;
}
