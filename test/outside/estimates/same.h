/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What makes a program with a seed (SALLOC_CONF) come to the same samples each time: how long a countdown is depends on the
 * clock, and which samples are guarded on addresses of code. For one source file of a program.
 */
#ifndef SA_TEST_SAME_H
#define SA_TEST_SAME_H

#include "test/outside/check.h"

#include <sys/personality.h>

static uint64_t same_now_ns = 1000000000; /* the clock: whoever has the turn */
static bool same_clock_asked;

/* Found by the library before libc's, as the program exports it. */
__attribute__((visibility("default"))) int clock_gettime(clockid_t id, struct timespec *ret)
{
    (void)id;
    same_clock_asked = true;
    *ret = (struct timespec){(time_t)(same_now_ns / 1000000000), (long)(same_now_ns % 1000000000)};
    return 0;
}

/* Starts the program again with its files at the same addresses each time, where the kernel lets it. First in main. */
static void same_addresses(char **argv)
{
    int now = personality(0xffffffff);

    if (now == -1 || now & ADDR_NO_RANDOMIZE || personality(now | ADDR_NO_RANDOMIZE) == -1)
        return;
    execv("/proc/self/exe", argv);
    REQUIRE(!"execv");
}

#endif
