/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program whose descriptor 2 becomes something else than it was at its start, with records of its
 * own among which a library misuses the heap. The report of a misuse that aborts is in memory for
 * whoever looks at the core, wherever else it goes.
 *
 * usage: late_stderr MISUSE keep|close|dup|log|filter|full [FILE]
 *   keep    descriptor 2 stays what it is, and records go to 1
 *   close   closes 0 to 2 and opens /dev/null twice, and FILE, which gets the number 2
 *   dup     opens FILE, or takes descriptor 3, and copies it to 2
 *   log     opens FILE for appending and copies it to 2, and records go to 1
 *   filter  as dup, and announces a filter of system calls then
 *   full    as dup, and no memory can be mapped from the first misuse on
 * MISUSE: mismatch (what came from new[] is freed with free), twice (a second free) or beside (a
 * write beside a guarded block).
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#define RECORDS 5

static const struct rlimit none = {0, 0};
static int full;

void *array_new(size_t size) __asm__("_Znam");

__attribute__((noinline)) static void library(const char *misuse, size_t size)
{
    char *volatile p = strcmp(misuse, "mismatch") == 0 ? array_new(size) : malloc(size);

    if (full)
        setrlimit(RLIMIT_AS, &none);
    memset(p, 1, size + (strcmp(misuse, "beside") == 0));
    free(p);
    if (strcmp(misuse, "twice") == 0)
        free(p);
}

/* The report is where a core or a debugger shows it. */
static void on_abort(int number)
{
    const char *const *text = dlsym(RTLD_DEFAULT, "salloc_abort_message");

    (void)number;
    if (!text || !*text || strncmp(*text, "salloc: ", 8) != 0 || (!full && !strstr(*text, "#0 ")))
        _exit(4);
}

int main(int argc, char **argv)
{
    const char *misuse = argc >= 3 ? argv[1] : "", *how = argc >= 3 ? argv[2] : "";
    const char *file = argc >= 4 ? argv[3] : NULL;
    int data = STDERR_FILENO, opened;

    setrlimit(RLIMIT_CORE, &none);
    signal(SIGABRT, on_abort);
    if (strcmp(how, "keep") == 0) {
        data = STDOUT_FILENO;
    } else if (strcmp(how, "close") == 0) {
        for (int fd = 0; fd <= STDERR_FILENO; fd++)
            close(fd);
        if (open("/dev/null", O_RDONLY) != 0 || open("/dev/null", O_WRONLY) != 1 || !file ||
            open(file, O_WRONLY | O_CREAT | O_TRUNC, 0600) != data)
            return 2;
    } else if (strcmp(how, "log") == 0) {
        data = STDOUT_FILENO;
        if (!file || dup2(open(file, O_WRONLY | O_CREAT | O_APPEND, 0600), STDERR_FILENO) < 0)
            return 2;
    } else {
        opened = file ? open(file, O_WRONLY | O_CREAT | O_TRUNC, 0600) : 3;
        if (dup2(opened, data) != data)
            return 2;
        full = strcmp(how, "full") == 0;
        if (strcmp(how, "filter") == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
            return 2;
    }
    for (int i = 0; i < RECORDS; i++) {
        char record[64] = {0};

        snprintf(record, sizeof(record), "record %d", i);
        if (write(data, record, sizeof(record)) != sizeof(record))
            return 3;
        library(misuse, strcmp(misuse, "beside") == 0 ? 4096 : 4000 + (size_t)i);
    }
    return 0;
}
