/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The nth system call of a kind fails, for every n from the first call that the library makes on,
 * once, three times and from then on. Proves for each, in a fresh process: malloc and its relatives
 * give NULL with ENOMEM or work, no block is lost or shared, nothing is said on stderr, and when
 * the calls succeed again so does everything.
 *
 * usage: injected KIND    all of the above: starts itself for every n
 *        injected KIND N FAILURES
 */
#include "test/outside/faults.h"
#include "test/outside/oom/oom.h"

#include <pthread.h>
#include <sys/wait.h>

static const char *const kinds[FAULT_KINDS] = {"mmap",   "mremap",     "madvise",
                                               "munmap", "membarrier", "mprotect"};

enum { BLOCKS = 300, STOPS = 64 };

static unsigned char *v[BLOCKS];
static size_t sizes[BLOCKS];

static size_t pick_size(uint64_t r)
{
    switch (r >> 60) {
    case 0:
        return r >> 20 & 0x7fffff;
    case 1:
    case 2:
        return r >> 20 & 0xfffff;
    case 3:
    case 4:
        return r >> 20 & 0xffff;
    default:
        return r >> 20 & 0x7ff;
    }
}

static void mark(int k)
{
    v[k][0] = v[k][sizes[k] - 1] = v[k][sizes[k] / 2] = (unsigned char)k;
}

static void check_mark(int k, size_t n)
{
    CHECK(v[k][0] == (unsigned char)k && v[k][n / 2] == (unsigned char)k);
    CHECK(n < sizes[k] || v[k][n - 1] == (unsigned char)k);
}

/* Random work; NULL is fine where it may fail, if errno says why. */
static void work(uint64_t seed, int steps, bool may_fail)
{
    for (int i = 0; i < steps; i++) {
        uint64_t r = check_random(&seed);
        int k = (int)(r % BLOCKS);
        size_t size = pick_size(r) + 1;
        unsigned char *p;

        errno = 0;
        if (v[k] && r >> 10 & 1) {
            p = realloc(v[k], size);
            if (p) {
                v[k] = p;
                CHECK(p[0] == (unsigned char)k);
                if (size > sizes[k])
                    check_mark(k, sizes[k]);
            }
        } else {
            if (v[k])
                check_mark(k, sizes[k]);
            free(v[k]);
            v[k] = NULL;
            errno = 0;
            p = r >> 11 & 1   ? malloc(size)
                : r >> 12 & 1 ? calloc(1, size)
                              : aligned_alloc(64, size);
            v[k] = p;
        }
        if (p) {
            sizes[k] = size;
            mark(k);
            continue;
        }
        CHECK_SAYS(may_fail, "%zu bytes", size);
        CHECK_SAYS(errno == ENOMEM, "errno is %d", errno);
        if (v[k])
            check_mark(k, sizes[k]);
    }
}

static int run(int kind, long n, long failures)
{
    void *p;

    faults_clear();
    faults[kind].after = n;
    faults[kind].failures = failures;
    work(42, 3000, kind == FAULT_MMAP);
    p = malloc(100 << 20);
    CHECK(p || kind == FAULT_MMAP);
    free(p);
    malloc_trim(0);
    work(43, 1000, kind == FAULT_MMAP);
    if (faults[kind].failed == 0 && !check_failures)
        return STOPS; /* so many calls are not made */
    faults_clear();
    work(44, 3000, false);
    for (int k = 0; k < BLOCKS; k++) {
        if (v[k])
            check_mark(k, sizes[k]);
        free(v[k]);
    }
    p = malloc(100 << 20);
    CHECK(p != NULL);
    free(p);
    oom_silent();
    check_begin();
    return check_end();
}

/* Runs one n in a new process; its exit status. */
static int start(char *program, char *kind, long n, long failures)
{
    char number[24], count[24];
    int status;
    pid_t pid;

    snprintf(number, sizeof(number), "%ld", n);
    snprintf(count, sizeof(count), "%ld", failures);
    pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
        alarm(60);
        execl("/proc/self/exe", program, kind, number, count, NULL);
        _exit(1);
    }
    REQUIRE(waitpid(pid, &status, 0) == pid);
    return status;
}

static void *idle_thread(void *arg)
{
    for (;;)
        pause();
    return arg;
}

int main(int argc, char **argv)
{
    static const long failures[] = {1, 3, FAULT_NEVER};
    pthread_t idle;
    int kind = 0;
    long ran = 0, first, max;

    REQUIRE(argc == 2 || argc == 4);
    oom_listen(argv);
    while (kind < FAULT_KINDS && strcmp(kinds[kind], argv[1]) != 0)
        kind++;
    REQUIRE(kind < FAULT_KINDS);
    /* Only where there are threads other CPUs are stopped. */
    if (kind == FAULT_MEMBARRIER && argc == 4)
        REQUIRE(pthread_create(&idle, NULL, idle_thread, NULL) == 0);
    if (argc == 4)
        return run(kind, strtol(argv[2], NULL, 10), strtol(argv[3], NULL, 10));
    first = kind == FAULT_MMAP ? 40 : 8;
    max = kind == FAULT_MMAP ? 400 : 130;
    for (size_t f = 0; f < 3; f++) {
        /* Every one of the first calls, later some. */
        for (long n = 0; n < max; n += n < first ? 1 : 9) {
            int status = start(argv[0], argv[1], n, failures[f]);

            if (WIFEXITED(status) && WEXITSTATUS(status) == STOPS)
                break;
            ran++;
            CHECK_SAYS(status == 0, "%s %ld, %ld failures: status %#x", argv[1], n, failures[f],
                       (unsigned)status);
        }
    }
    check_say("%ld processes", ran);
    REQUIRE(ran > 0); /* otherwise nothing was shown */
    return check_end();
}
