/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reporters of crashes are installed late, write what they know, put back what they found and let
 * the instruction fault again, or raise the signal themselves, or call what they found: then there
 * is a report, and the signal is what ends the program.
 *
 * EXPECT: use after free: 0x[0-9a-f]+ write at offset 0 of a freed block of 100 bytes
 * SIGNAL: SIGSEGV
 * STACKS: written=touch_write freed=drop allocated=make
 * ARGS: 0,1
 */
#include "test/outside/guarded/planted.h"

static struct sigaction found;
static long how;

static void handler(int number, siginfo_t *info, void *context)
{
    if (how == 0)
        sigaction(number, &found, NULL);
    else if (found.sa_flags & SA_SIGINFO)
        found.sa_sigaction(number, info, context);
    else
        _exit(1);
}

int main(int argc, char **argv)
{
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    char *p = make(100);

    how = planted_arg(argc, argv, 1);
    sigaction(SIGSEGV, &action, &found);
    drop(p);
    touch_write(p);
    return PLANTED_SURVIVED;
}
