/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Everything at once that could make the sampler wait for itself: libraries loaded and unloaded
 * whose code allocates, dl_iterate_phdr callbacks that allocate, fork (children that allocate,
 * fork, exec, exit), a profiling signal at 1 kHz whose handler walks its stack, threads that come
 * and go, exceptions, the interval changed, snapshots, recordings and files. Proves that no thread
 * ever stands still, that contents survive, and that every child ends well.
 *
 * usage: storm FOLDER SCRATCH [USR2]   USR2: this signal is sent a hundred times a second instead,
 * which must be profile_signal in SALLOC_CONF. storm.py runs this and looks at what hangs.
 */
#include "test/outside/sampling/storm.h"

#include "test/outside/check.h"

#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>

#define STANDSTILL  15.0 /* seconds without a piece of work */
#define CHILD_LIMIT 120  /* seconds of a child's life: longer, so that storm.py finds it */
#define BLOCKS      40
#define STACK_WORDS 200

struct storm storm;

static bool over;           /* atomic */
static uint64_t signals;    /* atomic */
static uint64_t looked;     /* atomic: what signal handlers saw */
static uint64_t child_kind; /* of the one forking thread */

/* Read while libraries come and go, written by forks whose child calls exit: glibc's exit waits for
 * locks of dlopen and dlclose, which nobody lets go of in a child that was made inside of them,
 * with any malloc. */
static pthread_rwlock_t loading = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;

void storm_blocks(uint64_t *random)
{
    struct {
        unsigned char *at;
        size_t size;
    } block[BLOCKS];

    for (int i = 0; i < BLOCKS; i++) {
        uint64_t r = check_random(random);

        block[i].size = r % 16 ? r % 2000 : r % 400000;
        block[i].at = r & 1 << 20 ? calloc(1, block[i].size + 1) : malloc(block[i].size + 1);
        REQUIRE(block[i].at);
        block[i].at[0] = (unsigned char)i;
        block[i].at[block[i].size] = (unsigned char)i;
    }
    for (int i = 0; i < BLOCKS; i++) {
        if (i % 3 == 0) {
            block[i].at = realloc(block[i].at, block[i].size + 100);
            REQUIRE(block[i].at);
        }
        REQUIRE(block[i].at[0] == i && (block[i].size == 0 || block[i].at[block[i].size] == i));
        free(block[i].at);
    }
}

static void *open_library(const char *path)
{
    void *handle;

    pthread_rwlock_rdlock(&loading);
    handle = dlopen(path, RTLD_NOW);
    pthread_rwlock_unlock(&loading);
    return handle;
}

static void work_load(uint64_t *random)
{
    size_t bytes = check_random(random) % 5000 + 1;
    void *(*make)(size_t);
    void *handle;
    char path[4096];
    unsigned char *p;

    snprintf(path, sizeof(path), "%s/libplugin.so", storm.folder);
    handle = open_library(path);
    REQUIRE(handle);
    make = (void *(*)(size_t))dlsym(handle, "plugin_make");
    REQUIRE(make);
    p = make(bytes);
    REQUIRE(p && p[0] == 7 && p[bytes - 1] == 7);
    pthread_rwlock_rdlock(&loading);
    REQUIRE(dlclose(handle) == 0);
    pthread_rwlock_unlock(&loading);
    free(p);
}

static int object_seen(struct dl_phdr_info *info, size_t size, void *random)
{
    void *p = malloc(size + strlen(info->dlpi_name));

    REQUIRE(p);
    storm_blocks(random);
    free(p);
    return 0;
}

static void work_phdr(uint64_t *random)
{
    REQUIRE(dl_iterate_phdr(object_seen, random) == 0);
}

static void *short_life(void *arg)
{
    uint64_t random = (uintptr_t)arg;

    storm_blocks(&random);
    return NULL;
}

static void work_threads(uint64_t *random)
{
    pthread_t threads[4];

    for (int i = 0; i < 4; i++)
        REQUIRE(pthread_create(&threads[i], NULL, short_life, (void *)check_random(random)) == 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
}

static bool reap(pid_t pid)
{
    int status = 0;

    while (waitpid(pid, &status, 0) != pid)
        REQUIRE(errno == EINTR);
    if (status)
        check_say("child %d: status %#x", (int)pid, (unsigned)status);
    return status == 0;
}

static bool exits(uint64_t kind)
{
    return kind % 8 == 3;
}

/* Everything a child may do after fork in a program with threads, and allocating, which it may with
 * us. */
static void child(uint64_t random, uint64_t kind)
{
    static char *const arguments[] = {"true", NULL};
    pid_t pid;

    alarm(CHILD_LIMIT);
    storm_blocks(&random);
    if (kind % 4 == 0)
        storm_snapshot(&random);
    if (kind % 4 == 1) {
        pid = fork();
        REQUIRE(pid >= 0);
        if (pid == 0) {
            alarm(CHILD_LIMIT);
            storm_blocks(&random);
            _exit(0);
        }
        REQUIRE(reap(pid));
    }
    if (kind % 4 == 2)
        execv("/bin/true", arguments);
    if (exits(kind))
        exit(0);
    _exit(0);
}

static void work_fork(uint64_t *random)
{
    pid_t pid;

    if (exits(child_kind))
        pthread_rwlock_wrlock(&loading);
    pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0)
        child(check_random(random), child_kind);
    if (exits(child_kind))
        pthread_rwlock_unlock(&loading);
    child_kind++;
    REQUIRE(reap(pid));
    usleep(1000);
}

static void work_throw(uint64_t *random)
{
    static int (*run)(int, size_t);
    char path[4096];
    void *handle;

    if (!run) {
        snprintf(path, sizeof(path), "%s/libthrower.so", storm.folder);
        handle = open_library(path);
        run = handle ? (int (*)(int, size_t))dlsym(handle, "thrower_run") : NULL;
    }
    if (run)
        REQUIRE(run((int)(check_random(random) % 40), check_random(random) % 3000));
    else
        usleep(10000); /* there was no compiler for it */
}

/* --- signals --- */

/* What a sampling profiler does: looks at the interrupted code and what is on its stack. (Not with
 * the program's unwinder: it cannot stand being interrupted itself.) */
static void handler(int number, siginfo_t *info, void *context)
{
    int saved = errno;
    const ucontext_t *interrupted = context;
#if defined(__x86_64__)
    uintptr_t pc = (uintptr_t)interrupted->uc_mcontext.gregs[REG_RIP];
    uintptr_t sp = (uintptr_t)interrupted->uc_mcontext.gregs[REG_RSP];
#else
    uintptr_t pc = interrupted->uc_mcontext.pc, sp = interrupted->uc_mcontext.sp;
#endif
    uint64_t sum = (uint64_t)number + (info != NULL);

    for (int i = 0; i < STACK_WORDS; i++)
        sum += ((const uintptr_t *)sp)[i];
#ifdef DLFO_STRUCT_HAS_EH_DBASE /* glibc 2.35 */
    struct dl_find_object found;

    if (_dl_find_object((void *)pc, &found) == 0)
        sum += *(const unsigned char *)found.dlfo_map_start;
#else
    (void)pc;
#endif
    __atomic_fetch_add(&looked, sum != 0, __ATOMIC_RELAXED);
    __atomic_fetch_add(&signals, 1, __ATOMIC_RELAXED);
    errno = saved;
}

static void work_usr2(uint64_t *random)
{
    (void)random;
    kill(getpid(), SIGUSR2);
    __atomic_fetch_add(&signals, 1, __ATOMIC_RELAXED);
    usleep(10000);
}

static void start_signals(void)
{
    struct itimerval every = {{0, 1000}, {0, 1000}};
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_RESTART | SA_SIGINFO};

    REQUIRE(sigaction(SIGPROF, &action, NULL) == 0);
    REQUIRE(setitimer(ITIMER_PROF, &every, NULL) == 0);
}

/* --- workers --- */

static struct worker workers[] = {
    {"load", work_load, 0},          {"phdr", work_phdr, 0},          {"threads", work_threads, 0},
    {"fork", work_fork, 0},          {"throw", work_throw, 0},        {"blocks", storm_blocks, 0},
    {"interval", storm_interval, 0}, {"snapshot", storm_snapshot, 0}, {"record", storm_record, 0},
    {"write", storm_write, 0},       {"usr2", work_usr2, 0},
};
enum { WORKERS = sizeof(workers) / sizeof(*workers) };

static void *run_worker(void *arg)
{
    struct worker *w = arg;
    uint64_t random = (uint64_t)(w - workers);

    while (!__atomic_load_n(&over, __ATOMIC_RELAXED)) {
        w->work(&random);
        __atomic_fetch_add(&w->count, 1, __ATOMIC_RELAXED);
    }
    return NULL;
}

/* Until the time is over or a worker stands still, which storm.py looks into. */
static void watch(int count, double seconds)
{
    double end = check_now() + seconds, moved[WORKERS];
    uint64_t before[WORKERS] = {0};

    for (int i = 0; i < count; i++)
        moved[i] = check_now();
    while (check_now() < end) {
        usleep(200000);
        for (int i = 0; i < count; i++) {
            uint64_t now = __atomic_load_n(&workers[i].count, __ATOMIC_RELAXED);

            if (now != before[i])
                moved[i] = check_now();
            before[i] = now;
            if (check_now() > moved[i] + STANDSTILL) {
                check_say("stuck: %s", workers[i].name);
                for (;;)
                    pause();
            }
        }
    }
}

int main(int argc, char **argv)
{
    bool usr2 = argc == 4;
    int count = usr2 ? WORKERS : WORKERS - 1;
    pthread_t threads[WORKERS];

    REQUIRE(argc >= 3);
    check_begin();
    storm.folder = argv[1];
    storm.scratch = argv[2];
    if (!usr2)
        start_signals();
    for (int i = 0; i < count; i++)
        REQUIRE(pthread_create(&threads[i], NULL, run_worker, &workers[i]) == 0);
    watch(count, check_seconds(10));
    __atomic_store_n(&over, true, __ATOMIC_RELAXED);
    for (int i = 0; i < count; i++) {
        pthread_join(threads[i], NULL);
        check_say("%s: %lu", workers[i].name, (unsigned long)workers[i].count);
        CHECK(workers[i].count > 0);
    }
    check_say("signals: %lu", (unsigned long)signals);
    check_say("resident: %zu KiB", check_status("VmRSS:"));
    CHECK(signals > 0);
    return check_end();
}
