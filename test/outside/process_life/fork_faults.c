/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the library adds to a child of fork that allocates nothing: a few page faults. A child maps
 * code anew and copies each page that it writes, so handlers of fork that lie apart, or write what
 * they need not, cost more than all that they do.
 *
 * The faults of children of fork are compared with those of children of _Fork, which calls no
 * handlers.
 */
#include "test/outside/check.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/*
 * fork's own handlers in libc fault twice. The library's child runs code that lies together: one
 * fault, or two where it crosses a boundary of 64 KiB. It writes one page of variables, and the
 * fork gate's. One is left for the loader.
 */
enum { CHILDREN = 100, BLOCKS = 1000, MORE_MAX = 2 + 2 + 1 + 1 + 1 };

static double faults(pid_t (*make)(void))
{
    long sum = 0;

    for (int i = 0; i < CHILDREN; i++) {
        struct rusage usage;
        pid_t child = make();
        int status;

        if (child == 0)
            syscall(SYS_exit_group, 0);
        REQUIRE(child > 0 && wait4(child, &status, 0, &usage) == child && status == 0);
        sum += usage.ru_minflt;
    }
    return (double)sum / CHILDREN;
}

int main(void)
{
    static void *block[BLOCKS];
    double bare, handled;

    for (size_t i = 0; i < BLOCKS; i++)
        REQUIRE(block[i] = malloc(i));
    for (size_t i = 0; i < BLOCKS; i++)
        free(block[i]);
    faults(fork); /* binds the symbols */
    bare = faults(_Fork);
    handled = faults(fork);
    check_say("a child of _Fork faults %.2f times, one of fork %.2f", bare, handled);
    CHECK_SAYS(handled <= bare + MORE_MAX, "at most %d more", MORE_MAX);
    return check_end();
}
