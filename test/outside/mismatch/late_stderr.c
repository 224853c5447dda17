/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program whose descriptor 2 becomes something else than it was at its start, with records of its
 * own among which a library frees with free what came from new[].
 *
 * usage: late_stderr keep|close|dup [FILE]
 *   keep   descriptor 2 stays what it is, and records go to 1
 *   close  closes 0 to 2 and opens /dev/null twice, and FILE, which gets the number 2
 *   dup    opens FILE, or takes descriptor 3, and copies it to 2
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RECORDS 5

void *array_new(size_t size) __asm__("_Znam");

__attribute__((noinline)) static void library(size_t size)
{
    char *volatile p = array_new(size);

    memset(p, 1, size);
    free(p);
}

int main(int argc, char **argv)
{
    const char *how = argc >= 2 ? argv[1] : "", *file = argc >= 3 ? argv[2] : NULL;
    int data = STDERR_FILENO, opened;

    if (strcmp(how, "keep") == 0) {
        data = STDOUT_FILENO;
    } else if (strcmp(how, "close") == 0) {
        for (int fd = 0; fd <= STDERR_FILENO; fd++)
            close(fd);
        if (open("/dev/null", O_RDONLY) != 0 || open("/dev/null", O_WRONLY) != 1 || !file ||
            open(file, O_WRONLY | O_CREAT | O_TRUNC, 0600) != data)
            return 2;
    } else {
        opened = file ? open(file, O_WRONLY | O_CREAT | O_TRUNC, 0600) : 3;
        if (dup2(opened, data) != data)
            return 2;
    }
    for (int i = 0; i < RECORDS; i++) {
        char record[64] = {0};

        snprintf(record, sizeof(record), "record %d", i);
        if (write(data, record, sizeof(record)) != sizeof(record))
            return 3;
        library(4000000 + (size_t)i);
    }
    return 0;
}
