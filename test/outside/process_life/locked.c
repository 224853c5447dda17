/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that locks its memory, as daemons for time and clusters, and audio programs do:
 * mlockall(MCL_CURRENT | MCL_FUTURE). What is mapped is in memory then, and MADV_DONTNEED fails.
 *
 *   locked free [filtered | onfault | old | old_onfault]
 *                            200 MiB of small blocks, then of large ones, are written to and freed.
 *                            At most LEFT_KIB more than before the first block are resident a
 *                            little later, also with MCL_ONFAULT, and also where the kernel does
 *                            not know MADV_DONTNEED_LOCKED, as before Linux 5.18;
 *                            filtered: large blocks only, as behind a filter nothing but whole
 *                            mappings can go back.
 *   locked start             without a first allocation before that: at most START_KIB resident
 *   locked dump              nothing locked: mappings that a debugger's dump has, at most
 *                            START_KIB, and all blocks in them
 */
#include "test/outside/check.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define TOTAL             (200ul << 20)
#define LARGE             (1ul << 20)
#define LEFT_KIB          (10ul << 10)
#define LEFT_FILTERED_KIB (16ul << 10) /* only whole mappings go back */
#define SECONDS           2.0
#define DONTNEED_LOCKED   24 /* MADV_DONTNEED_LOCKED, which old headers lack */

#define START_KIB                                                                                  \
    (16ul << 10) /* two hugepages of blocks, a slab, records, and the files; the map's tables are  \
                    24 MiB */

/* Address space without memory: 16 MiB are mapped ahead, and 16 MiB went back before it was known
 * that memory is locked. */
#define SPACE_KIB (32ul << 10)

static const size_t sizes[] = {2000, 100, 100000, LARGE, 3 * LARGE + LARGE / 2};

static size_t left_max = LEFT_KIB;
static size_t first;        /* KiB resident before the first block */
static size_t first_locked; /* KiB of address space that is locked then */

static size_t resident(void)
{
    return check_status("VmRSS:");
}

/* The blocks are linked, so that no table has to be locked. */
static void *allocate(size_t bytes)
{
    void **last = NULL;

    for (size_t i = 0; i < TOTAL / bytes; i++) {
        void **p = malloc(bytes);

        REQUIRE(p);
        memset(p, 1, bytes);
        *p = last;
        last = p;
    }
    return last;
}

static void release(void *last)
{
    for (void **p = last, **next; p; p = next) {
        next = *p;
        free(p);
    }
}

static void check_free(size_t bytes)
{
    double end = check_now() + SECONDS;
    void *last = allocate(bytes);
    size_t after;

    CHECK(resident() >= TOTAL >> 10);
    CHECK_SAYS(check_status("VmLck:") >= TOTAL >> 10, "%zu KiB are locked", check_status("VmLck:"));
    release(last);
    do {
        usleep(10000);
        free(malloc(100));
        after = resident();
    } while (after > first + left_max && check_now() < end);
    check_say("blocks of %zu bytes: %zu KiB before, %zu after", bytes, first, after);
    CHECK_SAYS(after <= first + left_max, "%zu KiB more", after - first);
    /* Address space counts against RLIMIT_MEMLOCK, with memory or without. */
    if (bytes >= LARGE)
        CHECK_SAYS(check_status("VmLck:") <= first_locked + left_max + SPACE_KIB,
                   "%zu KiB are locked, %zu before", check_status("VmLck:"), first_locked);
}

/* Executes the program for one size, whose blocks are its first. */
static void run_for(char **argv, size_t bytes)
{
    int status = -1;
    char text[24];
    pid_t child = fork();

    REQUIRE(child >= 0);
    if (child == 0) {
        snprintf(text, sizeof(text), "%zu", bytes);
        execl("/proc/self/exe", argv[0], argv[1], argv[2] ? argv[2] : "plain", text, NULL);
        _exit(1);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

/* Of mappings without a file, KiB that are not left out of dumps (`dd`); whether p is in one. */
static size_t dumped(const void *p, bool *ret_has)
{
    static char text[1 << 18];
    size_t sum = 0, kib = 0;
    unsigned long from = 0, to = 0, inode = 0;
    bool has = false;

    check_read("/proc/self/smaps", text, sizeof(text));
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        unsigned long start, end, node;

        if (sscanf(line, "%lx-%lx %*s %*s %*s %lu", &start, &end, &node) == 3) {
            from = start;
            to = end;
            inode = node;
        } else if (strncmp(line, "Size:", 5) == 0) {
            kib = strtoul(line + 5, NULL, 10);
        } else if (strncmp(line, "VmFlags:", 8) == 0 && !strstr(line, " dd") && !inode) {
            sum += kib;
            has = has || (from <= (uintptr_t)p && (uintptr_t)p < to);
        }
    }
    *ret_has = has;
    return sum;
}

static void check_dump(void)
{
    bool has;
    void *last;
    size_t kib;

    for (int i = 0; i < 1000; i++) {
        void *p = malloc(100);

        REQUIRE(p);
        CHECK_OPAQUE(p);
    }
    kib = dumped(NULL, &has);
    CHECK_SAYS(kib <= START_KIB, "%zu KiB", kib);
    last = allocate(LARGE);
    for (void **p = last; p; p = *p) {
        dumped(p, &has);
        CHECK(has);
    }
    release(last);
}

/* Executes the program again with a kernel that refuses MADV_DONTNEED_LOCKED, as an older one. */
static void run_on_old_kernel(char **argv)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, DONTNEED_LOCKED, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        SKIP("no seccomp: error %d", errno);
    setenv("TEST_OLD", "1", 1);
    execv("/proc/self/exe", argv);
    REQUIRE(!"execv");
}

int main(int argc, char **argv)
{
    bool onfault = argc > 2 && strstr(argv[2], "onfault");

    REQUIRE(argc >= 2);
    if (argc > 2 && strncmp(argv[2], "old", 3) == 0 && !getenv("TEST_OLD"))
        run_on_old_kernel(argv);
    check_begin();
    if (strcmp(argv[1], "dump") == 0) {
        check_dump();
        return check_end();
    }
    if (mlockall(MCL_CURRENT | MCL_FUTURE | (onfault ? MCL_ONFAULT : 0)) != 0)
        SKIP("memory cannot be locked");
    CHECK_OPAQUE(argv);
    first = resident();
    free(malloc(100));
    first_locked = check_status("VmLck:");
    if (argc > 2 && strcmp(argv[2], "filtered") == 0)
        left_max = LEFT_FILTERED_KIB;
    if (strcmp(argv[1], "start") == 0) {
        first = resident();
        CHECK_SAYS(first <= START_KIB, "%zu KiB", first);
        return check_end();
    }
    if (argc > 3) {
        check_free(strtoul(argv[3], NULL, 10));
        return check_end();
    }
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        if (sizes[i] >= LARGE || left_max == LEFT_KIB)
            run_for(argv, sizes[i]);
    return check_end();
}
