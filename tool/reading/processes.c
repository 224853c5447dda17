/* SPDX-License-Identifier: Apache-2.0 */
/* What /proc tells of processes; see processes.h. No state. */
#include "tool/reading/processes.h"

#include "tool/base/array.h"
#include "tool/base/io.h"

#include <ctype.h>
#include <dirent.h>
#include <linux/kcmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

void sa_process_read_name(pid_t pid, char ret[SA_PROCESS_NAME])
{
    strcpy(ret, "?");
    if (sa_io_read_proc(pid, "comm", ret, SA_PROCESS_NAME))
        ret[strcspn(ret, "\n")] = '\0';
    for (char *p = ret; *p; p++)
        if (!isprint((unsigned char)*p) || strchr("\"\\<>&'", *p))
            *p = '?';
}

bool sa_process_shares_memory(pid_t pid)
{
    char text[512], *at;
    pid_t parent;

    if (!sa_io_read_proc(pid, "stat", text, sizeof(text)) || !(at = strrchr(text, ')')) ||
        sscanf(at + 1, " %*c %d", &parent) != 1 || parent <= 0)
        return false;
    return syscall(SYS_kcmp, pid, parent, KCMP_VM, 0, 0) == 0;
}

void sa_process_read(pid_t pid, struct sa_process *ret)
{
    unsigned long pages = 0;
    char text[128];

    *ret = (struct sa_process){.pid = pid};
    sa_process_read_name(pid, ret->name);
    if (sa_io_read_proc(sa_io_living(pid), "statm", text, sizeof(text)) &&
        sscanf(text, "%*s %lu", &pages) == 1)
        ret->resident = pages * (size_t)sysconf(_SC_PAGESIZE);
    ret->started = sa_io_started(pid);
}

static int by_number(const void *a, const void *b)
{
    pid_t x = *(const pid_t *)a, y = *(const pid_t *)b;

    return x < y ? -1 : x > y;
}

pid_t *sa_processes_list(size_t *ret_count)
{
    DIR *proc = opendir("/proc");
    struct dirent *entry;
    size_t count = 0, cap = 0;
    pid_t *list = NULL;

    while (proc && (entry = readdir(proc))) {
        pid_t pid = isdigit((unsigned char)entry->d_name[0]) ? atoi(entry->d_name) : 0;

        if (pid <= 0)
            continue;
        if (!sa_array_room(&list, &cap, count + 1, sizeof(*list), 256))
            break;
        list[count++] = pid;
    }
    if (proc)
        closedir(proc);
    if (list)
        qsort(list, count, sizeof(*list), by_number);
    *ret_count = count;
    return list;
}
