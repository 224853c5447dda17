/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that has the library inside, run by twice.py with another copy preloaded: the loader
 * gives everybody the program's functions, and the other copy serves nobody. usage: twice MIB
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    size_t bytes = argc == 2 ? strtoul(argv[1], NULL, 10) << 20 : 0;
    char *volatile p = malloc(bytes);
    pid_t child;

    if (!p)
        return 99;
    memset(p, 1, bytes);
    child = fork(); /* both copies have handlers for it */
    if (child == 0)
        _exit(0);
    waitpid(child, NULL, 0);
    puts("out");
    return 5;
}
