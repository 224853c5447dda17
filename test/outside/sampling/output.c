/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that does what it is told, line by line from stdin, for output.py. It answers each line
 * with "done".
 *
 * + N     allocates N MiB, in blocks of 64 KiB
 * -       frees them
 * loop    allocates and frees without end; SIGUSR1 then calls quick_exit
 * exit, quick_exit, _exit, abort, vfork, return: ways to end; vfork: a child is killed before
 */
#include "test/outside/check.h"

#include <signal.h>
#include <sys/wait.h>

#define BLOCK 65536
#define MOST  16384

static void *blocks[MOST];
static int count;

static __attribute__((noinline)) void output_allocate(int mib)
{
    for (int end = count + mib * 16; count < end && count < MOST; count++) {
        blocks[count] = malloc(BLOCK);
        REQUIRE(blocks[count]);
        memset(blocks[count], 1, 4096);
    }
}

static void output_free(void)
{
    while (count > 0)
        free(blocks[--count]);
}

static void output_quick_exit(int number)
{
    (void)number;
    quick_exit(3);
}

/* Slow paths, most of the time. Does not answer again. */
static void output_loop(void)
{
    signal(SIGUSR1, output_quick_exit);
    check_say("done");
    for (;;) {
        output_allocate(16);
        output_free();
    }
}

/* A child in the memory of its parent, whose end is not the parent's. */
static void output_vfork(void)
{
    int status;
    pid_t pid = vfork();

    if (pid == 0) {
        kill(getpid(), SIGTERM);
        _exit(0);
    }
    REQUIRE(pid > 0 && waitpid(pid, &status, 0) == pid);
    REQUIRE(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
}

static void output_end(const char *how)
{
    if (strcmp(how, "exit") == 0)
        exit(3);
    if (strcmp(how, "quick_exit") == 0)
        quick_exit(3);
    if (strcmp(how, "_exit") == 0)
        _exit(3);
    if (strcmp(how, "abort") == 0)
        abort();
}

int main(void)
{
    char line[100];

    setvbuf(stdin, NULL, _IONBF, 0);
    check_say("done");
    while (fgets(line, sizeof(line), stdin)) {
        line[strcspn(line, "\n")] = '\0';
        if (line[0] == '+')
            output_allocate(atoi(line + 1));
        else if (line[0] == '-')
            output_free();
        else if (strcmp(line, "loop") == 0)
            output_loop();
        else if (strcmp(line, "vfork") == 0)
            output_vfork();
        else
            output_end(line);
        if (strcmp(line, "return") == 0)
            return 3;
        check_say("done");
    }
    return 0;
}
