/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that locks itself in after its start. From then on the library may make only the calls
 * of the list in doc/compatibility.md. The filter tells the library's calls by the address of the
 * instruction, so that the list is exactly that, whatever libc and this program call. Calls that
 * the library could make by way of libc are refused to everybody.
 *
 * usage: filter errno|trap|kill prctl|seccomp|number    how a call beyond the list ends, and how
 *                                                       the filter is set up (number: without
 *                                                       PR_SET_NO_NEW_PRIVS, as root)
 */
#include "test/outside/check.h"
#include "test/outside/library_code.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#ifndef SECCOMP_RET_KILL_PROCESS
#define SECCOMP_RET_KILL_PROCESS 0x80000000u
#endif

enum { BLOCKS = 200, LARGE = 60, LARGE_BYTES = 3 << 20, THREADS = 4 };

static volatile sig_atomic_t trapped; /* number of the first call beyond the list, plus 1 */

static void at_trap(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)context;
    if (!trapped)
        trapped = info->si_syscall + 1;
}

#define FIELD(field)          offsetof(struct seccomp_data, field)
#define LOAD(field)           BPF_STMT(BPF_LD | BPF_W | BPF_ABS, FIELD(field))
#define IS(value, yes, no)    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, yes, no)
#define LEAST(value, yes, no) BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, value, yes, no)
#define HAS(bits, yes, no)    BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, bits, yes, no)
#define RETURN(value)         BPF_STMT(BPF_RET | BPF_K, value)

/* The low half of a 64-bit field; the high one follows. */
#define LOAD_HIGH(field)                                                                           \
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field) + sizeof(uint32_t))

static void lock_in(unsigned action, const char *by)
{
    uintptr_t code[2] = {0, 0};

    REQUIRE(dl_iterate_phdr(library_code, code) == 1 && code[0]);
    if (code[0] >> 32 != code[1] >> 32)
        SKIP("the library lies across 4 GiB");

    struct sock_filter filter[] = {
        LOAD(nr),
        /* Of these nobody has need here: libc would make them for the library. */
        IS(SYS_rt_sigaction, 0, 4),
        LOAD(args[0]),
        IS(SIGSEGV, 1, 0),
        RETURN(SECCOMP_RET_ALLOW),
        RETURN(action),
        IS(SYS_openat, 0, 1),
        RETURN(action),
        IS(SYS_mincore, 0, 1),
        RETURN(action),
        IS(SYS_sched_getaffinity, 0, 1),
        RETURN(action),
        /* Not the library's. */
        LOAD_HIGH(instruction_pointer),
        IS((uint32_t)(code[0] >> 32), 1, 0),
        RETURN(SECCOMP_RET_ALLOW),
        LOAD(instruction_pointer),
        LEAST((uint32_t)code[0], 1, 0),
        RETURN(SECCOMP_RET_ALLOW),
        LEAST((uint32_t)code[1], 0, 1),
        RETURN(SECCOMP_RET_ALLOW),
        /* The list. */
        LOAD(nr),
        IS(SYS_munmap, 0, 1),
        RETURN(SECCOMP_RET_ALLOW),
        IS(SYS_mremap, 0, 1),
        RETURN(SECCOMP_RET_ALLOW),
        IS(SYS_futex, 0, 1),
        RETURN(SECCOMP_RET_ALLOW),
        IS(SYS_mmap, 0, 5),
        LOAD(args[3]),
        IS(MAP_PRIVATE | MAP_ANONYMOUS, 1, 0),
        IS(MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, 0, 1),
        RETURN(SECCOMP_RET_ALLOW),
        RETURN(action),
        IS(SYS_mprotect, 0, 4),
        LOAD(args[2]),
        HAS(PROT_EXEC, 1, 0),
        RETURN(SECCOMP_RET_ALLOW),
        RETURN(action),
        IS(SYS_madvise, 0, 4),
        LOAD(args[2]),
        IS(MADV_DONTNEED, 1, 0),
        IS(MADV_FREE, 0, 1),
        RETURN(SECCOMP_RET_ALLOW),
        RETURN(action),
    };
    struct sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};

    if ((strcmp(by, "number") != 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) ||
        (strcmp(by, "prctl") != 0
             ? syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program)
             : prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) != 0)
        SKIP("no seccomp: error %d", errno);
}

static void work(uint64_t seed, int steps)
{
    unsigned char *v[BLOCKS] = {NULL};

    for (int i = 0; i < steps; i++) {
        uint64_t r = check_random(&seed);
        size_t k = r % BLOCKS, size = 1 + (r >> 10) % (r >> 57 ? 3000 : 400000);

        if (v[k] && r >> 40 & 1) {
            unsigned char *p = realloc(v[k], size);

            REQUIRE(p);
            v[k] = p;
        } else {
            if (v[k])
                REQUIRE(v[k][0] == k);
            free(v[k]);
            v[k] = malloc(size);
            REQUIRE(v[k]);
        }
        v[k][0] = (unsigned char)k;
    }
    for (size_t k = 0; k < BLOCKS; k++)
        free(v[k]);
}

static void *thread_work(void *arg)
{
    work((uintptr_t)arg, 20000);
    return NULL;
}

static void threads(void)
{
    pthread_t thread[THREADS];

    for (uintptr_t i = 0; i < THREADS; i++)
        REQUIRE(pthread_create(&thread[i], NULL, thread_work, (void *)(i + 1)) == 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
}

/* Many large blocks; the heap is then worth hugepages, and gives memory back when they are
 * freed. */
static void grow_and_shrink(void)
{
    static void *large[LARGE];

    for (int i = 0; i < LARGE; i++) {
        large[i] = malloc(LARGE_BYTES + (size_t)i * 4096);
        REQUIRE(large[i]);
        memset(large[i], 1, LARGE_BYTES);
        large[i] = realloc(large[i], 2 * LARGE_BYTES);
        REQUIRE(large[i]);
    }
    for (int i = 0; i < LARGE; i++)
        free(large[i]);
    malloc_trim(0);
    mallinfo2();
    free(((char *(*)(void))dlsym(RTLD_DEFAULT, "salloc_get_stats"))());
}

/* Maintenance is due each half second. */
static void idle(void)
{
    for (double end = check_now() + 1.6; check_now() < end; usleep(20000))
        work(5, 300);
}

static void run_out(void)
{
    struct rlimit old, limit;
    void **list = NULL, **p;

    REQUIRE(getrlimit(RLIMIT_AS, &old) == 0);
    limit = (struct rlimit){1ul << 30, old.rlim_max};
    REQUIRE(setrlimit(RLIMIT_AS, &limit) == 0);
    for (size_t i = 0; (p = malloc(i % 2 ? 300000 : 5000)) != NULL; i++) {
        *p = list;
        list = p;
    }
    CHECK(errno == ENOMEM);
    while ((p = list)) {
        list = *p;
        free(p);
    }
    REQUIRE(setrlimit(RLIMIT_AS, &old) == 0);
}

static void fork_one(void)
{
    int status;
    pid_t pid = fork();

    REQUIRE(pid >= 0);
    if (pid == 0) {
        work(7, 3000);
        threads();
        _exit(trapped ? 1 : 0);
    }
    REQUIRE(waitpid(pid, &status, 0) == pid);
    CHECK_SAYS(status == 0, "the child's status is %#x", (unsigned)status);
}

static void *thread_fork(void *arg)
{
    for (int i = 0; i < 5; i++)
        fork_one();
    return arg;
}

int main(int argc, char **argv)
{
    struct sigaction action = {.sa_sigaction = at_trap, .sa_flags = SA_SIGINFO};
    pthread_t thread;
    unsigned what;

    REQUIRE(argc == 3);
    what = strcmp(argv[1], "errno") == 0  ? SECCOMP_RET_ERRNO | EPERM
           : strcmp(argv[1], "trap") == 0 ? SECCOMP_RET_TRAP
                                          : SECCOMP_RET_KILL_PROCESS;
    check_begin();
    sigaction(SIGSYS, &action, NULL);
    lock_in(what, argv[2]);
    work(3, 20000);
    idle();
    grow_and_shrink();
    idle();
    threads();
    fork_one();
    REQUIRE(pthread_create(&thread, NULL, thread_fork, NULL) == 0);
    for (int i = 0; i < 10; i++)
        work((uint64_t)i + 1, 5000);
    pthread_join(thread, NULL);
    run_out();
    threads();
    idle();
    CHECK_SAYS(!trapped, "call %d was made", trapped - 1);
    return check_end();
}
