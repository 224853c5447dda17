/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that has something to profile, for files.py.
 *
 * usage: writer write PATH...    one snapshot into each path; prints the errno of each, or 0
 *        writer loop PATH        writes until it is killed
 *        writer wait SECONDS     prints "ready", then waits; prints "done"
 *        writer blocked SECONDS  the same with all signals blocked, and in a call that a signal
 *                                would end
 *        writer exit STATUS
 */
#include "include/salloc/profile.h"
#include "test/outside/check.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>

static void *blocks[500];

static __attribute__((noinline)) void writer_allocate(void)
{
    for (int i = 0; i < 500; i++)
        blocks[i] = malloc(1000 + (size_t)i % 50 * 16);
}

int main(int argc, char **argv)
{
    salloc_profile *profile;

    check_begin();
    REQUIRE(argc >= 3);
    writer_allocate();
    profile = salloc_snapshot_profile(SALLOC_PROFILE_HEAP);
    REQUIRE(profile);
    if (strcmp(argv[1], "loop") == 0) {
        check_say("ready");
        for (;;)
            salloc_profile_write_file(profile, argv[2]);
    }
    for (int i = 2; strcmp(argv[1], "write") == 0 && i < argc; i++)
        check_say("%d", salloc_profile_write_file(profile, argv[i]) == 0 ? 0 : errno);
    if (strcmp(argv[1], "wait") == 0) {
        double end = check_now() + strtod(argv[2], NULL);

        check_say("ready");
        while (check_now() < end)
            usleep(10000);
        check_say("done");
    }
    if (strcmp(argv[1], "blocked") == 0) {
        sigset_t all;

        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, NULL);
        check_say("ready");
        REQUIRE(poll(NULL, 0, (int)(strtod(argv[2], NULL) * 1000)) == 0);
        check_say("done");
    }
    salloc_profile_free(profile);
    return strcmp(argv[1], "exit") == 0 ? atoi(argv[2]) : 0;
}
