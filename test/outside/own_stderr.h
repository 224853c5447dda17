/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that reads what the library writes to stderr, in itself or in its children. The library
 * writes there only if that is the file that stderr was at load, so the program is executed again
 * with a pipe as stderr. For C and C++.
 */
#ifndef SA_TEST_OWN_STDERR_H
#define SA_TEST_OWN_STDERR_H

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define OWN_STDERR_BYTES (1 << 20)

/* Executes the program again, unless that was done. Returns the descriptor to read from; it does
 * not block. */
__attribute__((unused)) static int own_stderr_begin(char **argv)
{
    const char *known = getenv("OWN_STDERR");
    char number[16];
    int ends[2];

    if (known)
        return atoi(known);
    if (pipe(ends) != 0 || fcntl(ends[1], F_SETPIPE_SZ, OWN_STDERR_BYTES) < 0 ||
        fcntl(ends[0], F_SETFL, O_NONBLOCK) != 0 || dup2(ends[1], STDERR_FILENO) < 0)
        _exit(3);
    close(ends[1]);
    snprintf(number, sizeof(number), "%d", ends[0]);
    setenv("OWN_STDERR", number, 1);
    execv("/proc/self/exe", argv);
    _exit(3);
}

/* Takes what was written so far, as a string of less than `capacity` bytes; the rest is lost.
 * Returns its length. */
__attribute__((unused)) static size_t own_stderr_read(int fd, char *text, size_t capacity)
{
    char rest[256];
    ssize_t n = read(fd, text, capacity - 1); /* of a pipe: all that it has */

    text[n > 0 ? n : 0] = '\0';
    while (n > 0 && read(fd, rest, sizeof(rest)) > 0)
        ;
    return n > 0 ? (size_t)n : 0;
}

#endif
