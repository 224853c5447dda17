/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program of one thread whose filter allows no futex, as that of vsftpd does. Samples on a
 * stack that is deeper than any before make no such call, and have the callers on it.
 */
#include "include/salloc/salloc.h"
#include "test/outside/check.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { DEPTH = 40 };

static void *deepest;
static size_t depth_found;

static void lock_in(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_futex, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};

    REQUIRE(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    REQUIRE(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

/* A page of the stack for each call. */
__attribute__((noinline)) static int deeper(int depth)
{
    volatile char page[4096];
    int more = 0;

    page[0] = page[4095] = 1;
    if (depth) {
        free(malloc(100));
        more = deeper(depth - 1);
    } else {
        deepest = malloc(12345);
    }
    return more + page[0] + page[4095];
}

static int look(const struct salloc_profile_sample *sample, void *unused)
{
    (void)unused;
    if (sample->requested_size == 12345)
        depth_found = sample->depth;
    return 0;
}

int main(void)
{
    salloc_profile *(*current)(enum salloc_profile_type) =
        (salloc_profile * (*)(enum salloc_profile_type))
            dlsym(RTLD_DEFAULT, "salloc_snapshot_profile");
    int (*iterate)(const salloc_profile *, int (*)(const struct salloc_profile_sample *, void *),
                   void *) = dlsym(RTLD_DEFAULT, "salloc_profile_iterate");
    salloc_profile *profile;
    pid_t child;
    int status;

    check_begin();
    REQUIRE(current && iterate);
    child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        lock_in();
        CHECK(deeper(DEPTH) == 2 * (DEPTH + 1));
        profile = current(SALLOC_PROFILE_HEAP);
        REQUIRE(profile && iterate(profile, look, NULL) == 0);
        CHECK_SAYS(depth_found > DEPTH, "%zu frames", depth_found);
        _exit(check_end());
    }
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK_SAYS(status == 0, "status %x", (unsigned)status);
    return check_end();
}
