/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Large blocks on whose pages a program leaves marks or other access, and that it frees then: a
 * block that comes later at their place is as any other. It can be written to, is zero where calloc
 * gave it, and is there in a child. Blocks without marks keep their memory, so that a loop of
 * malloc and free has few page faults.
 */
#include "test/outside/check.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

enum { WIPE, DONT_FORK, READ_ONLY, NO_ACCESS, KINDS };

static const char *const names[] = {"MADV_WIPEONFORK", "MADV_DONTFORK", "PROT_READ", "PROT_NONE"};

/* Blocks that lose their memory when they are freed have two faults each at least: a hugepage's,
 * and one of the rest. */
enum { ROUNDS = 40, LOOPS = 2000, FAULTS_MAX = LOOPS, TOGETHER = 6 };

static size_t page;

/* On all of a block, from a page of it on, or its last page. */
static bool set(int kind, char *p, size_t size, int where)
{
    size_t pages = (size + page - 1) / page;
    char *from = where == 0 ? p : p + (where == 1 ? pages / 3 : pages - 1) * page;
    size_t bytes = where == 0 ? pages * page : page;

    switch (kind) {
    case WIPE:
        return madvise(from, bytes, MADV_WIPEONFORK) == 0;
    case DONT_FORK:
        return madvise(from, bytes, MADV_DONTFORK) == 0;
    case READ_ONLY:
        return mprotect(from, bytes, PROT_READ) == 0;
    default:
        return mprotect(from, bytes, PROT_NONE) == 0;
    }
}

/* All of a new block, here and in a child. */
static void check_block(const char *name, size_t size)
{
    char *p = calloc(1, size);
    int status;
    pid_t pid;

    REQUIRE(p);
    for (size_t i = 0; i < size; i += 512)
        CHECK_SAYS(p[i] == 0, "%s: byte %zu of %zu is %d", name, i, size, p[i]);
    memset(p, 7, size);
    pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
        for (size_t i = 0; i < size; i += 512)
            if (p[i] != 7)
                _exit(1);
        memset(p, 9, size);
        _exit(0);
    }
    REQUIRE(waitpid(pid, &status, 0) == pid);
    CHECK_SAYS(status == 0, "%s, %zu bytes: the child's status is %#x", name, size,
               (unsigned)status);
    for (size_t i = 0; i < size; i += 512)
        CHECK_SAYS(p[i] == 7, "%s: byte %zu of %zu is %d", name, i, size, p[i]);
    free(p);
}

static void check_kind(int kind)
{
    static const size_t sizes[] = {300000, 1 << 20, 3 << 20, (4 << 20) + 12345};
    uint64_t seed = (uint64_t)kind + 1;

    for (int i = 0; i < ROUNDS; i++) {
        uint64_t r = check_random(&seed);
        size_t size = sizes[r % 4];
        char *p = malloc(size), *q = r & 1024 ? malloc(size) : NULL;

        REQUIRE(p);
        memset(p, 1, size);
        if (!set(kind, p, size, r >> 20 & 1 ? 0 : 1 + (int)(r >> 21 & 1)))
            check_say("%s cannot be set", names[kind]);
        if (r & 2048 && kind < READ_ONLY)
            p = realloc(p, size - size / 3);
        free(p);
        check_block(names[kind], size);
        free(q);
    }
}

/* Neighbours with the same marks; then blocks at their places. */
static void check_together(int kind)
{
    enum { SIZE = 400000 };
    char *p[TOGETHER];

    for (int i = 0; i < TOGETHER; i++) {
        p[i] = malloc(SIZE);
        REQUIRE(p[i] && set(kind, p[i], SIZE, 0));
    }
    for (int i = 0; i < TOGETHER; i++)
        free(p[(i * 5 + 3) % TOGETHER]);
    for (int i = 0; i < TOGETHER; i++) {
        p[i] = malloc(SIZE);
        REQUIRE(p[i]);
    }
    for (int i = 0; i < TOGETHER; i++)
        free(p[i]);
    check_block(names[kind], TOGETHER * SIZE);
}

static long faults(void)
{
    struct rusage u;

    getrusage(RUSAGE_SELF, &u);
    return u.ru_minflt;
}

/* Blocks that nobody has marked keep their memory. */
static void check_unmarked(size_t size)
{
    long before = 0;

    for (int i = 0; i < LOOPS; i++) {
        char *p = malloc(size);

        REQUIRE(p);
        memset(p, i, size);
        free(p);
        if (i == LOOPS / 10)
            before = faults();
    }
    CHECK_SAYS(faults() - before <= FAULTS_MAX, "%ld page faults in %d rounds of %zu bytes",
               faults() - before, LOOPS, size);
}

int main(void)
{
    check_begin();
    page = (size_t)sysconf(_SC_PAGESIZE);
    if (!SA_HARDENED) { /* which keeps what is freed, without memory */
        check_unmarked(300000);
        check_unmarked(1 << 20);
        check_unmarked((2 << 20) + 4096);
    }
    for (int kind = 0; kind < KINDS; kind++) {
        check_kind(kind);
        check_together(kind);
    }
    return check_end();
}
