/* SPDX-License-Identifier: Apache-2.0 */
/* Whole writes, and small files of /proc; see io.h. */
#include "tool/base/io.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int sa_io_write_all(int fd, const void *data, size_t bytes)
{
    const char *p = data;

    while (bytes) {
        ssize_t n = write(fd, p, bytes);

        if (n < 0 && errno != EINTR)
            return -errno;
        if (n > 0) {
            p += n;
            bytes -= (size_t)n;
        }
    }
    return 0;
}

bool sa_io_has_ended(pid_t tid)
{
    char text[1024], *end, state;

    end = sa_io_read_proc(tid, "stat", text, sizeof(text)) ? strrchr(text, ')') : NULL;
    return !end || sscanf(end + 1, " %c", &state) != 1 || state == 'Z' || state == 'X';
}

pid_t sa_io_living(pid_t pid)
{
    char path[SA_PROC_PATH];
    struct dirent *entry;
    pid_t found = 0;
    DIR *tasks;

    if (!sa_io_has_ended(pid))
        return pid;
    snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    tasks = opendir(path);
    while (tasks && !found && (entry = readdir(tasks))) {
        pid_t tid = atoi(entry->d_name);

        if (tid > 0 && !sa_io_has_ended(tid))
            found = tid;
    }
    if (tasks)
        closedir(tasks);
    return found ? found : pid;
}

const char *sa_io_proc_path(char ret[SA_PROC_PATH], pid_t pid, const char *name)
{
    snprintf(ret, SA_PROC_PATH, "/proc/%d/%s", (int)sa_io_living(pid), name);
    return ret;
}

bool sa_io_read_proc(pid_t pid, const char *name, char *ret, size_t cap)
{
    char path[64];
    size_t n;
    FILE *f;

    snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
    f = fopen(path, "re");
    if (!f)
        return false;
    n = fread(ret, 1, cap - 1, f);
    ret[n] = '\0';
    fclose(f);
    return n > 0;
}

/* The last number of the line NSpid. */
long sa_io_own_pid(pid_t pid)
{
    char text[4096], *line, *end;

    if (!sa_io_read_proc(pid, "status", text, sizeof(text)) || !(line = strstr(text, "\nNSpid:")))
        return 0;
    line += strlen("\nNSpid:");
    end = line + strcspn(line, "\n");
    *end = '\0';
    while (end > line && end[-1] != '\t' && end[-1] != ' ')
        end--;
    return strtol(end, NULL, 10);
}

/* Field 22; the name, in parentheses, may have any character. */
unsigned long long sa_io_started(pid_t pid)
{
    unsigned long long started = 0;
    char text[1024], *end;

    end = sa_io_read_proc(pid, "stat", text, sizeof(text)) ? strrchr(text, ')') : NULL;
    if (!end || sscanf(end + 1,
                       " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d "
                       "%*d %llu",
                       &started) != 1)
        return 0;
    return started;
}
