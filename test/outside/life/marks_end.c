/* SPDX-License-Identifier: Apache-2.0 */
/*
 * No mark on the pages of a large block outlives it: advice of each kind, locks, memory policies
 * and protection keys are gone from blocks that come at its place, whether the pages waited in the
 * page heap, were used at once or went back to the system.
 */
#include "test/outside/check.h"

#include <malloc.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#define SIZE (4ul << 20)

enum { POLICY_BIND = 2, POLICY_PREFERRED = 1 };

/* Whether the mapping of p has a flag of /proc/self/smaps. */
static bool has_flag(const void *p, const char *flag)
{
    static char text[1 << 18];
    int fd = open("/proc/self/smaps", O_RDONLY | O_CLOEXEC);
    size_t n = 0;
    ssize_t got;
    bool in = false;

    REQUIRE(fd >= 0);
    while ((got = read(fd, text + n, sizeof(text) - 1 - n)) > 0)
        n += (size_t)got;
    close(fd);
    text[n] = '\0';
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        unsigned long start, end;

        if (sscanf(line, "%lx-%lx %*s", &start, &end) == 2 && line[0] != 'V')
            in = start <= (uintptr_t)p && (uintptr_t)p < end;
        else if (in && strncmp(line, "VmFlags:", 8) == 0)
            return strstr(line, flag);
    }
    return false;
}

static int policy(void *p)
{
    unsigned long nodes[16] = {0};
    int mode = 0;

    syscall(SYS_get_mempolicy, &mode, nodes, sizeof(nodes) * 8, p, 2ul /* MPOL_F_ADDR */);
    return mode;
}

static long (*bind)(void *, unsigned long, int, const unsigned long *, unsigned long, unsigned);

static const struct {
    const char *name, *flag; /* NULL: a policy */
    int value;
} marks[] = {
    {"MADV_MERGEABLE", " mg", MADV_MERGEABLE},
    {"MADV_RANDOM", " rr", MADV_RANDOM},
    {"MADV_SEQUENTIAL", " sr", MADV_SEQUENTIAL},
    {"MADV_NOHUGEPAGE", " nh", MADV_NOHUGEPAGE},
    {"MADV_DONTDUMP", " dd", MADV_DONTDUMP},
    {"mlock", " lo", -1},
    {"mlock2", " lo", -2},
    {"mbind, bound", NULL, POLICY_BIND},
    {"mbind, preferred", NULL, POLICY_PREFERRED},
};

static bool set(size_t m, void *p)
{
    unsigned long node = 1;

    if (!marks[m].flag)
        return bind && bind(p, SIZE, marks[m].value, &node, 64, 0) == 0;
    return marks[m].value == -1   ? mlock(p, SIZE) == 0
           : marks[m].value == -2 ? mlock2(p, SIZE, 1) == 0
                                  : madvise(p, SIZE, marks[m].value) == 0;
}

static void check_mark(size_t m, bool release)
{
    char *p = aligned_alloc(4096, SIZE), *q[6];

    REQUIRE(p);
    memset(p, 1, SIZE);
    if (!set(m, p)) {
        check_say("%s: refused", marks[m].name);
        free(p);
        return;
    }
    CHECK_SAYS(marks[m].flag ? has_flag(p + 8192, marks[m].flag) : policy(p) == marks[m].value,
               "%s is not there", marks[m].name);
    free(p);
    if (release)
        malloc_trim(0);
    for (int i = 0; i < 6; i++) {
        q[i] = malloc(i < 2 ? SIZE : SIZE / 4 + (size_t)i);
        REQUIRE(q[i]);
        CHECK_SAYS(!(marks[m].flag ? has_flag(q[i] + 8192, marks[m].flag) : policy(q[i])),
                   "%s is on a new block", marks[m].name);
        memset(q[i], 1, SIZE / 4);
    }
    for (int i = 0; i < 6; i++)
        free(q[i]);
}

int main(void)
{
    check_begin();
    bind = dlsym(RTLD_DEFAULT, "mbind");
    for (size_t m = 0; m < sizeof(marks) / sizeof(marks[0]); m++)
        for (int release = 0; release < 2; release++)
            check_mark(m, release);
    return check_end();
}
