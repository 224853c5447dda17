/* SPDX-License-Identifier: Apache-2.0 */
/* The threads of this process, by their names, and its memory. */
#ifndef SA_TEST_LIMITS_TASKS_H
#define SA_TEST_LIMITS_TASKS_H

#include "test/outside/check.h"

#include <dirent.h>

#define MIB (1ul << 20)

__attribute__((unused)) static size_t resident(void)
{
    return check_status("VmRSS:") * 1024;
}

/* The number of the thread with that name in ret; false: there is none. */
static bool find_task(const char *name, char ret[32])
{
    DIR *tasks = opendir("/proc/self/task");
    struct dirent *d;
    bool found = false;

    REQUIRE(tasks);
    while (!found && (d = readdir(tasks))) {
        char path[300], text[32] = "";
        int fd;

        snprintf(path, sizeof(path), "/proc/self/task/%s/comm", d->d_name);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
            continue;
        found = read(fd, text, sizeof(text) - 1) > 0 && strncmp(text, name, strlen(name)) == 0 &&
                text[strlen(name)] == '\n';
        close(fd);
        if (found)
            snprintf(ret, 32, "%.30s", d->d_name);
    }
    closedir(tasks);
    return found;
}

/* Whether there is one; waits up to two seconds until it is as expected. */
static bool there_is(const char *name, bool expected)
{
    char number[32];

    for (int i = 0; i < 200 && find_task(name, number) != expected; i++)
        usleep(10000);
    return find_task(name, number);
}

#endif
