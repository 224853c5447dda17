/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guarding needs system calls that a program may have lost the right to make, or that have no room:
 * what is left is an allocator without guarded blocks, that serves its program, in the middle of
 * which it happens.
 *
 * usage: denied CALL|calls      a sandbox answers EPERM: mprotect, rt_sigaction, gettid, or all of
 *                               them
 *        denied locked          all memory is locked, now and in future
 *        denied sealed          what is writable cannot become executable, nor the other way round
 *                               (MDWE)
 *        denied space           RLIMIT_AS leaves a few MiB
 *        denied mappings        vm.max_map_count leaves a few mappings, then many again
 */
#include "test/outside/check.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#ifndef PR_SET_MDWE
#define PR_SET_MDWE              65
#define PR_MDWE_REFUSE_EXEC_GAIN 1
#endif

enum { BLOCKS = 100, STEPS = 20000, PAGE = 4096, FEW = 30, MAPPINGS_MAX = 200000 };

static unsigned char *blocks[BLOCKS];

static const struct {
    const char *name;
    unsigned number;
} calls[] = {
    {"mprotect", SYS_mprotect}, {"rt_sigaction", SYS_rt_sigaction}, {"gettid", SYS_gettid}};

static void deny(unsigned number)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        SKIP("no seccomp: error %d", errno);
}

/* Blocks of all sizes, each with its number at both ends. */
static void work(uint64_t seed, bool may_fail)
{
    static size_t sizes[BLOCKS];

    for (int i = 0; i < STEPS; i++) {
        uint64_t r = check_random(&seed);
        size_t k = r % BLOCKS, size = 1 + (r >> 10) % (r >> 56 < 4    ? 1000000
                                                       : r >> 56 < 40 ? 50000
                                                                      : 2000);

        if (blocks[k])
            REQUIRE(blocks[k][0] == k && blocks[k][sizes[k] - 1] == k);
        free(blocks[k]);
        errno = 0;
        blocks[k] = malloc(size);
        REQUIRE(blocks[k] || (may_fail && errno == ENOMEM));
        if (blocks[k])
            blocks[k][0] = blocks[k][size - 1] = (unsigned char)k;
        sizes[k] = size;
    }
}

/* Leaves room for a few mappings: of a row of pages every second one is inaccessible. */
static void fill_mappings(void)
{
    char *row = mmap(NULL, (size_t)MAPPINGS_MAX * PAGE, PROT_READ,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    int n = 1;

    if (row == MAP_FAILED)
        SKIP("no address space");
    while (n < MAPPINGS_MAX && mprotect(row + (size_t)n * PAGE, PAGE, PROT_NONE) == 0)
        n += 2;
    if (n >= MAPPINGS_MAX)
        SKIP("there may be more mappings than %d", MAPPINGS_MAX);
    for (int i = 0; i < FEW; i++, n -= 2)
        mprotect(row + (size_t)(n - 2) * PAGE, PAGE, PROT_READ);
    work(2, true);
    munmap(row, (size_t)MAPPINGS_MAX * PAGE);
}

static void limit_space(void)
{
    struct rlimit limit = {(check_status("VmSize:") << 10) + (12 << 20), RLIM_INFINITY};

    REQUIRE(setrlimit(RLIMIT_AS, &limit) == 0);
    work(2, true);
    limit.rlim_cur = RLIM_INFINITY;
    REQUIRE(setrlimit(RLIMIT_AS, &limit) == 0);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";

    check_begin();
    work(1, false);
    if (strcmp(what, "locked") == 0) {
        if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0)
            SKIP("memory cannot be locked");
    } else if (strcmp(what, "sealed") == 0) {
        if (prctl(PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0) != 0)
            SKIP("no PR_SET_MDWE");
    } else if (strcmp(what, "space") == 0) {
        limit_space();
    } else if (strcmp(what, "mappings") == 0) {
        fill_mappings();
    } else {
        for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
            if (strcmp(what, calls[i].name) == 0 || strcmp(what, "calls") == 0)
                deny(calls[i].number);
    }
    work(3, false);
    for (int i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    return check_end();
}
