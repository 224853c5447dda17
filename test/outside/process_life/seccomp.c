/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sandbox that denies rseq or membarrier: the library falls back to a cache per thread by itself.
 * usage: seccomp rseq|membarrier    starts itself again under the filter
 */
#include "test/outside/check.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

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

static void *work(void *arg)
{
    uint64_t seed = (uintptr_t)arg;
    unsigned char *v[100] = {NULL};

    for (int i = 0; i < 50000; i++) {
        uint64_t r = check_random(&seed);
        size_t k = r % 100;

        if (v[k])
            REQUIRE(v[k][0] == k);
        free(v[k]);
        v[k] = malloc(1 + (r >> 10) % (r >> 57 ? 2000 : 300000));
        REQUIRE(v[k]);
        v[k][0] = (unsigned char)k;
    }
    for (size_t k = 0; k < 100; k++)
        free(v[k]);
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[4];
    char *stats;

    REQUIRE(argc >= 2);
    if (argc == 2) {
        deny(strcmp(argv[1], "rseq") == 0 ? SYS_rseq : SYS_membarrier);
        execl("/proc/self/exe", argv[0], argv[1], "filtered", NULL);
        REQUIRE(!"execl");
    }
    check_begin();
    CHECK(check_property("tcmalloc.per_cpu_caches_active") == 0);
    for (uintptr_t i = 0; i < 4; i++)
        REQUIRE(pthread_create(&threads[i], NULL, work, (void *)(i + 1)) == 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    stats = ((char *(*)(void))dlsym(RTLD_DEFAULT, "salloc_get_stats"))();
    REQUIRE(stats);
    CHECK(strstr(stats, argv[1]) != NULL); /* the reason is shown */
    free(stats);
    return check_end();
}
