/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process whose memory lets its reader wait without end: the pages of the library's variables are
 * given back, and a descriptor of userfaultfd, which nobody serves, answers for them. Ends with 77
 * where that is not allowed.
 * usage: hanging
 */
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define RANGES_MAX 16

struct range {
    unsigned long start, end;
};

/* The anonymous, writable mappings behind the library's file: its variables. */
static int find_ranges(struct range *ret)
{
    char line[512], *name;
    FILE *maps = fopen("/proc/self/maps", "r");
    int count = 0, behind = 0;

    while (maps && fgets(line, sizeof(line), maps)) {
        unsigned long start, end;
        char access[8];

        if (sscanf(line, "%lx-%lx %7s", &start, &end, access) != 3)
            continue;
        name = strchr(line, '/');
        if (name) {
            behind = strstr(name, "libsalloc") != NULL;
        } else if (behind && strncmp(access, "rw-p", 4) == 0 && !strchr(line, '[') &&
                   count < RANGES_MAX) {
            ret[count++] = (struct range){start, end};
        }
    }
    if (maps)
        fclose(maps);
    return count;
}

int main(void)
{
    struct uffdio_api api = {.api = UFFD_API};
    struct range ranges[RANGES_MAX];
    int count, fd;

    free(malloc(100));
    fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
    count = find_ranges(ranges);
    if (fd < 0 || ioctl(fd, UFFDIO_API, &api) != 0 || !count)
        return 77;
    if (write(1, "ready\n", 6) != 6)
        return 1;
    /* From here on, nothing may allocate. */
    for (int i = 0; i < count; i++) {
        struct uffdio_register r = {.range = {ranges[i].start, ranges[i].end - ranges[i].start},
                                    .mode = UFFDIO_REGISTER_MODE_MISSING};

        if (ioctl(fd, UFFDIO_REGISTER, &r) != 0)
            _exit(77);
        madvise((void *)ranges[i].start, r.range.len, MADV_DONTNEED);
    }
    for (;;)
        syscall(SYS_pause);
}
