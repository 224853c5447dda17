/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work for listed.py, which looks at the system calls that the library makes meanwhile; see mark.h.
 *
 *   listed filter    announces a filter after start, and then does all that a daemon may do: idle,
 *                    grow, shrink, run out of address space, fork, make threads, end by a report or
 *                    by a fault
 *   listed free      the same without a filter; with "names", too
 *   listed failing   requests that cannot be served, in a heap of many holes
 */
#include "test/outside/check.h"
#include "test/outside/syscalls/mark.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { LOADED = 1, ANNOUNCED, FAILING, FAILED, AGAIN, END };

enum { BLOCKS = 300, THREADS = 3, LARGE = 20, HOLES = 200000, TIMES = 20 };

static void note(int what)
{
    syscall(TRACE_NOTE, what);
}

static void work(uint64_t seed, int steps)
{
    unsigned char *v[BLOCKS] = {NULL};

    for (int i = 0; i < steps; i++) {
        uint64_t r = check_random(&seed);
        size_t k = r % BLOCKS, size = 1 + (r >> 10) % (r >> 57 ? 3000 : 400000);

        v[k] = realloc(v[k], size);
        REQUIRE(v[k]);
        v[k][0] = v[k][size - 1] = (unsigned char)k;
    }
    for (size_t k = 0; k < BLOCKS; k++)
        free(v[k]);
}

static void *thread_work(void *arg)
{
    work((uintptr_t)arg, 2000);
    return NULL;
}

static void threads(void)
{
    pthread_t thread[THREADS];

    for (uintptr_t i = 0; i < THREADS; i++)
        REQUIRE(pthread_create(&thread[i], NULL, thread_work, (void *)(i + 1)) == 0);
    work(9, 2000);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
}

static void grow_and_shrink(void)
{
    static void *large[LARGE];

    for (size_t i = 0; i < LARGE; i++) {
        large[i] = malloc((3ul << 20) + i * 4096);
        REQUIRE(large[i]);
        memset(large[i], 1, 3ul << 20);
        large[i] = realloc(large[i], 6ul << 20);
        REQUIRE(large[i]);
    }
    for (int i = 0; i < LARGE; i++)
        free(large[i]);
    malloc_trim(0);
}

static void idle(void)
{
    for (double end = check_now() + 1.2; check_now() < end; usleep(50000))
        work(5, 100);
}

static void limit_space(struct rlimit *ret_old, size_t bytes)
{
    struct rlimit limit;

    REQUIRE(getrlimit(RLIMIT_AS, ret_old) == 0);
    limit = (struct rlimit){bytes, ret_old->rlim_max};
    REQUIRE(setrlimit(RLIMIT_AS, &limit) == 0);
}

static void run_out(void)
{
    struct rlimit old;
    void **list = NULL, **p;

    limit_space(&old, (check_status("VmSize:") << 10) + (100ul << 20));
    for (size_t i = 0; (p = malloc(i % 2 ? 300000 : 5000)) != NULL; i++) {
        *p = list;
        list = p;
    }
    while ((p = list)) {
        list = *p;
        free(p);
    }
    REQUIRE(setrlimit(RLIMIT_AS, &old) == 0);
}

static void end_in_fault(void)
{
    *(volatile char *)NULL = 0;
}

/* A use of a freed block: guarded, or nothing happens. */
static void end_in_report(void)
{
    volatile char *p = malloc(100);

    free((void *)p);
    p[3] = 1;
    raise(SIGABRT);
}

static void end_in_abort(void)
{
    void *p = malloc(1ul << 20);
    uintptr_t inside = (uintptr_t)p + 64;

    CHECK_OPAQUE(inside);
    free((void *)inside);
}

static void end_well(void)
{
    work(7, 1000);
    threads();
}

/* In a child: how it ends. Its reports are not for the test's output, but are made. */
static void in_child(void (*end)(void), int signal_number)
{
    int status;
    pid_t pid = fork();

    REQUIRE(pid >= 0);
    if (pid == 0) {
        int fd = open("/dev/null", O_WRONLY);

        if (signal_number && fd >= 0)
            dup2(fd, STDERR_FILENO);
        end();
        _exit(0);
    }
    REQUIRE(waitpid(pid, &status, 0) == pid);
    CHECK_SAYS(WIFSIGNALED(status) ? WTERMSIG(status) == signal_number : signal_number == 0,
               "the child's status is %#x, not signal %d", (unsigned)status, signal_number);
}

static void do_all(bool filter)
{
    /* So that guarded blocks and the handler of SIGSEGV are there. */
    for (double end = check_now() + 0.6; check_now() < end; usleep(10000))
        work(6, 300);
    if (filter)
        REQUIRE(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    note(ANNOUNCED);
    work(3, 3000);
    idle();
    grow_and_shrink();
    in_child(end_in_fault, SIGSEGV);
    in_child(end_in_abort, SIGABRT);
    threads();
    idle();
    in_child(end_well, 0);
    in_child(end_in_report, SIGABRT);
    run_out();
    work(4, 1000);
}

/* Holes in all hugepages, and a request for more than the address space that may be had. */
static void fail(void)
{
    static void *blocks[HOLES];
    struct rlimit old;

    threads();
    for (size_t i = 0; i < HOLES; i++) {
        blocks[i] = malloc(3000);
        REQUIRE(blocks[i]);
        *(char *)blocks[i] = 1;
    }
    for (size_t i = 0; i < HOLES; i++)
        if (i % 8)
            free(blocks[i]);
    limit_space(&old, 1ul << 30);
    note(FAILING);
    CHECK(!malloc(8ul << 30) && errno == ENOMEM);
    note(FAILED);
    for (int i = 0; i < TIMES; i++)
        CHECK(!malloc(8ul << 30) && errno == ENOMEM);
    note(AGAIN);
    CHECK(malloc(3000) != NULL);
}

int main(int argc, char **argv)
{
    REQUIRE(argc == 2);
    check_begin();
    note(LOADED);
    if (strcmp(argv[1], "failing") == 0)
        fail();
    else
        do_all(strcmp(argv[1], "filter") == 0);
    note(END);
    return check_end();
}
