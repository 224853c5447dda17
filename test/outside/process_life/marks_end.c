/* SPDX-License-Identifier: Apache-2.0 */
/*
 * No mark on the pages of a large block outlives it: advice of each kind, locks, memory policies,
 * access, protection keys and names are gone from blocks that come at its place, whether the pages
 * waited in the page heap, were used at once or went back to the system. Marks are set by name, by
 * number, and by a syscall that was found in a handle of libc.
 */
#include "test/outside/check.h"

#include <malloc.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41
#endif

#define SIZE  (4ul << 20)
#define FAR   (3ul << 30) /* lies in another window than smaller blocks */
#define START 65536       /* the bytes of a block that are written */

enum { POLICY_BIND = 2, POLICY_PREFERRED = 1 };
enum { BY_NAME, BY_NUMBER, BY_HANDLE, ROUTES };

static const char *const routes[] = {"by name", "by number", "by number and handle"};
static long (*bind)(void *, unsigned long, int, const unsigned long *, unsigned long, unsigned);
static long (*libc_syscall)(long, ...);

/* Whether the mapping of p has a flag of /proc/self/smaps, or a text in its first line. */
static bool has_flag(const void *p, const char *flag)
{
    static char text[1 << 18];
    bool in = false;

    check_read("/proc/self/smaps", text, sizeof(text));
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        unsigned long start, end;

        if (sscanf(line, "%lx-%lx %*s", &start, &end) == 2 && line[0] != 'V') {
            in = start <= (uintptr_t)p && (uintptr_t)p < end;
            if (in && strstr(line, flag))
                return true;
        } else if (in && strncmp(line, "VmFlags:", 8) == 0) {
            return strstr(line, flag);
        }
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

static const struct mark {
    const char *name, *flag; /* flag: NULL for a policy; with a "!" what is missing */
    long number;
    long value; /* advice, access, flags or policy */
} marks[] = {
    {"MADV_MERGEABLE", " mg", SYS_madvise, MADV_MERGEABLE},
    {"MADV_RANDOM", " rr", SYS_madvise, MADV_RANDOM},
    {"MADV_SEQUENTIAL", " sr", SYS_madvise, MADV_SEQUENTIAL},
    {"MADV_NOHUGEPAGE", " nh", SYS_madvise, MADV_NOHUGEPAGE},
    {"MADV_DONTDUMP", " dd", SYS_madvise, MADV_DONTDUMP},
    {"MADV_DONTFORK", " dc", SYS_madvise, MADV_DONTFORK},
    {"mlock", " lo", SYS_mlock, 0},
    {"mlock2", " lo", SYS_mlock2, 1},
    {"mprotect, read", "! wr", SYS_mprotect, PROT_READ},
    {"mprotect, none", "! rd", SYS_mprotect, PROT_NONE},
    {"pkey_mprotect, read", "! wr", SYS_pkey_mprotect, PROT_READ},
    {"mbind, bound", NULL, SYS_mbind, POLICY_BIND},
    {"mbind, preferred", NULL, SYS_mbind, POLICY_PREFERRED},
    {"PR_SET_VMA", "marks_end", SYS_prctl, PR_SET_VMA},
};

/* False: the kernel refuses, or there is no such function. */
static bool set(const struct mark *m, int route, void *p, size_t size)
{
    unsigned long node = 1;
    long (*call)(long, ...) = route == BY_HANDLE ? libc_syscall : syscall;

    if (route != BY_NAME) {
        if (m->number == SYS_prctl)
            return call(m->number, m->value, 0, p, size, "marks_end") == 0;
        if (m->number == SYS_pkey_mprotect)
            return call(m->number, p, size, m->value, -1) == 0;
        return call(m->number, p, size, m->value, &node, 64ul, 0ul) == 0;
    }
    switch (m->number) {
    case SYS_madvise:
        return madvise(p, size, (int)m->value) == 0;
    case SYS_mlock:
        return mlock(p, size) == 0;
    case SYS_mlock2:
        return mlock2(p, size, (unsigned)m->value) == 0;
    case SYS_mprotect:
        return mprotect(p, size, (int)m->value) == 0;
    case SYS_pkey_mprotect:
        return pkey_mprotect(p, size, (int)m->value, -1) == 0;
    case SYS_mbind:
        return bind && bind(p, size, (int)m->value, &node, 64, 0) == 0;
    default:
        return prctl((int)m->value, 0ul, p, size, "marks_end") == 0;
    }
}

static bool is_there(const struct mark *m, char *p)
{
    if (!m->flag)
        return policy(p) != 0;
    return m->flag[0] == '!' ? !has_flag(p + 8192, m->flag + 1) : has_flag(p + 8192, m->flag);
}

static void check_mark(const struct mark *m, int route, size_t size, bool release)
{
    char *p = aligned_alloc(4096, size), *q[6];

    REQUIRE(p);
    memset(p, 1, START);
    if (!set(m, route, p, size)) {
        if (route == BY_NUMBER)
            check_say("%s: refused", m->name);
        free(p);
        return;
    }
    CHECK_SAYS(is_there(m, p), "%s, %s, is not there", m->name, routes[route]);
    free(p);
    if (release)
        malloc_trim(0);
    for (int i = 0; i < 6; i++) {
        q[i] = malloc(i < 2 ? size : SIZE / 4 + (size_t)i);
        REQUIRE(q[i]);
        CHECK_SAYS(!is_there(m, q[i]), "%s, %s, is on a new block", m->name, routes[route]);
        if (m->flag && m->flag[0] == '!' && is_there(m, q[i]))
            exit(1); /* cannot be written to */
        memset(q[i], 1, START);
    }
    for (int i = 0; i < 6; i++)
        free(q[i]);
}

int main(void)
{
    check_begin();
    bind = dlsym(RTLD_DEFAULT, "mbind");
    libc_syscall = (long (*)(long, ...))dlsym(dlopen("libc.so.6", RTLD_LAZY), "syscall");
    REQUIRE(libc_syscall);
    for (size_t m = 0; m < sizeof(marks) / sizeof(marks[0]); m++)
        for (int route = 0; route < ROUTES; route++) {
            for (int release = 0; release < 2; release++)
                check_mark(&marks[m], route, SIZE, release);
            if (!strstr(marks[m].name, "lock")) /* which would take as much memory */
                check_mark(&marks[m], route, FAR, false);
        }
    return check_end();
}
