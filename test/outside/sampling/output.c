/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that does what it is told, line by line from stdin, for output.py. It answers each line
 * with "done".
 *
 * + N     allocates N MiB, in blocks of 64 KiB
 * -       frees them
 * exit, quick_exit, _exit, abort, return: the ways to end
 */
#include "test/outside/check.h"

#include <signal.h>

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
        else
            output_end(line);
        if (strcmp(line, "return") == 0)
            return 3;
        check_say("done");
    }
    return 0;
}
