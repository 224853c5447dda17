/* SPDX-License-Identifier: Apache-2.0 */
/* What /proc tells about the parent process; see parent_process.h. No variables. */
#include "alloc/output/parent_process.h"

#include "alloc/base/fmt.h"
#include "alloc/os/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#define BLOCK 4096

/* Returns the PID of the parent, or 0. */
static int parent_pid(void)
{
    char text[512], *at;
    int pid = 0;

    if (sa_sys_read_file("/proc/self/stat", text, sizeof(text)) <= 0)
        return 0;
    at = strrchr(text, ')'); /* behind the name, which may have any characters: " S PPID" */
    if (!at || strlen(at) < 4)
        return 0;
    for (at += 4; *at >= '0' && *at <= '9'; at++)
        pid = pid * 10 + (*at - '0');
    return pid;
}

/*
 * Returns whether a file of the parent has a string that consists of two parts. whole: the string
 * is all that is between two zeros, or else stands anywhere. A search that goes on at the first
 * character of the string, which occurs in it only there, needs no step back.
 */
static bool parent_file_has(int pid, const char *file, const char *first, const char *second,
                            bool whole)
{
    size_t n = strlen(first), len = n + strlen(second), matched = 0;
    bool apart = false, found = false; /* apart: this string is another one */
    char name[64], block[BLOCK];
    struct sa_fmt f;
    long got;
    int fd;

    sa_fmt_init(&f, name, sizeof(name));
    sa_fmt_add(&f, "/proc/%d/%s", pid, file);
    fd = sa_sys_open(name, O_RDONLY, 0);
    if (fd < 0)
        return false;
    while (!found && ((got = sa_sys_read(fd, block, sizeof(block))) > 0 || got == -EINTR))
        for (long i = 0; i < got && !found; i++) {
            char c = block[i];

            if (whole && c == '\0') {
                found = !apart && matched == len;
                matched = 0;
                apart = false;
            } else if (matched < len && c == (matched < n ? first[matched] : second[matched - n])) {
                matched++;
                found = !whole && matched == len;
            } else {
                apart = true;
                matched = !whole && c == first[0];
            }
        }
    sa_sys_close(fd);
    return found;
}

bool sa_parent_has_conf(const char *conf)
{
    int pid = parent_pid();

    return pid > 0 && parent_file_has(pid, "environ", "SALLOC_CONF=", conf, true) &&
           parent_file_has(pid, "maps", "/libsalloc", ".so", false);
}
