/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Children that no fork handler announces, of a process whose threads allocate all the time.
 * usage: children KIND CHILDREN [SIGNALS]
 *
 *   vfork, __vfork   share memory and thread-local storage with the thread that waits for them
 *   clone            the same by clone(CLONE_VM | CLONE_VFORK), on a stack of their own
 *   nested           the same, and each child has a child of that kind
 *   raw              copies of the process by the system call clone(SIGCHLD), without libc's fork
 *   _Fork            the same by libc's fork without handlers
 *   exit             children of vfork that end without a word, some of them by SIGKILL
 *   forks            children of vfork that fork, by fork or the system call; the copies live on
 *   killed           children of vfork that allocate until another thread kills them, anywhere
 *
 * Every block is tagged by its owner from end to end, so that a block with two owners is seen.
 * Proves that children can allocate, that no block has two owners in parent or child, and that
 * nobody hangs: a process that does nothing for a while is ended.
 */
#include "test/outside/check.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum {
    LIVE = 64,
    CREATORS = 2,
    CHURNERS = 3,
    CHILD_STEPS = 300,
    STUCK_SECONDS = 20,
    STACK_BYTES = 256 << 10,
    CHILD_FAILED = 3,
    LONG_STEPS = 60000,
    MORE_KIB = 64 << 10, /* LONG_STEPS allocate 200 MiB */
    FORK_SECONDS = 5,    /* a fork that waits for lost threads takes 10 */
    LATEST_KILL_US = 2000,
    LIVING_COPIES = 100, /* about so many of all copies live on, or one in eight */
};

struct block {
    uint64_t *p;
    size_t words;
    uint64_t tag;
};

struct work {
    uint64_t seed;
    struct block live[LIVE];
};

static int stop;               /* atomic */
static int children;           /* of each creator */
static const char *kind;       /* what children are */
static void *handed[CREATORS]; /* what a child has left for its parent */
static int corrupt;            /* atomic: blocks whose tag was not their owner's */
static int exec_all;           /* children end by executing a program */
static unsigned progress;      /* atomic: children that have ended; in a copy steps of its own */
static bool is_copy;

/* A child that is killed: written by the child, read by the thread that kills it. */
struct victim {
    pid_t pid;    /* atomic */
    int inside;   /* atomic: it is in a function of the allocator */
    int where[2]; /* of those that were killed, how many were outside and inside */
    /* The child's blocks, which its parent frees but for the one at hand: nobody knows whether it
     * is freed, or moved. */
    void *live[LIVE];
    unsigned hand;
    uint64_t seed;
} victims[CREATORS];

/* Ends a process that has done nothing since the last time: it hangs. */
static void on_alarm(int number)
{
    static unsigned before = -1u;
    unsigned now = __atomic_load_n(&progress, __ATOMIC_RELAXED);

    if (now == before) {
        check_say("%s: hangs after %u", is_copy ? "copy" : "program", now);
        signal(number, SIG_DFL);
        raise(number);
    }
    before = now;
    alarm(STUCK_SECONDS);
}

static void begin_copy(void)
{
    is_copy = true;
    alarm(STUCK_SECONDS);
}

static void tag(struct block *b, uint64_t value)
{
    b->tag = value;
    b->p[0] = b->p[b->words - 1] = b->p[b->words / 2] = value;
}

static void check_tag(const struct block *b)
{
    if (b->p[0] != b->tag || b->p[b->words - 1] != b->tag || b->p[b->words / 2] != b->tag)
        __atomic_fetch_add(&corrupt, 1, __ATOMIC_RELAXED);
}

static size_t some_size(uint64_t r)
{
    if (r % 64 == 0)
        return 8 + r / 64 % 300000;
    return 8 + r / 64 % (r % 8 ? 200 : 4000);
}

/* Allocates, changes and frees blocks, each looked at before it goes. */
static void churn(struct work *w, int steps)
{
    for (int i = 0; i < steps; i++) {
        uint64_t r = check_random(&w->seed);
        struct block *b = &w->live[r % LIVE];
        size_t size = some_size(r >> 8);

        if (is_copy)
            __atomic_fetch_add(&progress, 1, __ATOMIC_RELAXED);

        if (b->p)
            check_tag(b);
        if (b->p && r >> 62 == 0) {
            b->p = realloc(b->p, size);
        } else {
            free(b->p);
            b->p = r >> 62 == 1 ? calloc(1, size) : malloc(size);
            if (b->p && r >> 62 == 1)
                for (size_t k = 0; k < size / 8; k++)
                    if (b->p[k])
                        __atomic_fetch_add(&corrupt, 1, __ATOMIC_RELAXED);
        }
        REQUIRE(b->p);
        b->words = size / 8;
        tag(b, r);
    }
}

static void drop(struct work *w)
{
    for (size_t i = 0; i < LIVE; i++) {
        if (w->live[i].p)
            check_tag(&w->live[i]);
        free(w->live[i].p);
        w->live[i].p = NULL;
    }
}

static void *churner(void *arg)
{
    struct work w = {.seed = (uintptr_t)arg};

    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED))
        churn(&w, 1000);
    drop(&w);
    return NULL;
}

static void *child_thread(void *arg)
{
    struct work w = {.seed = (uintptr_t)arg};

    churn(&w, CHILD_STEPS);
    drop(&w);
    return NULL;
}

static pid_t raw_copy(void)
{
    return (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, 0ul);
}

/* What a copy of the process does if it lives on: what it frees is used again, it makes threads,
 * and forks by the given call, without waiting for threads that it has not. */
static void copy_lives(struct work *w, pid_t (*copy)(void))
{
    size_t before = check_status("VmData:");
    pthread_t thread;
    double begun;
    int status;
    pid_t pid;

    for (int i = 0; i < LONG_STEPS / CHILD_STEPS; i++)
        churn(w, CHILD_STEPS);
    CHECK_SAYS(check_status("VmData:") < before + MORE_KIB, "%zu KiB more",
               check_status("VmData:") - before);
    REQUIRE(pthread_create(&thread, NULL, child_thread, w) == 0);
    churn(w, CHILD_STEPS);
    pthread_join(thread, NULL);
    begun = check_now();
    pid = copy();
    REQUIRE(pid >= 0);
    if (pid == 0) {
        alarm(STUCK_SECONDS);
        churn(w, CHILD_STEPS);
        _exit(check_failures || corrupt ? CHILD_FAILED : 0);
    }
    CHECK_SAYS(check_now() - begun < FORK_SECONDS, "%.1f s", check_now() - begun);
    REQUIRE(waitpid(pid, &status, 0) == pid && status == 0);
}

/* What each child does: its own blocks, and those that its parent's thread has. */
static __attribute__((noinline)) int child_work(struct work *w, int creator, int n)
{
    struct work own = {.seed = w->seed ^ 0x5555};
    bool copy = strcmp(kind, "raw") == 0 || strcmp(kind, "_Fork") == 0;

    if (copy)
        begin_copy();
    churn(&own, CHILD_STEPS);
    churn(w, CHILD_STEPS);
    if (!copy) {
        handed[creator] = malloc(100);
        memset(handed[creator], creator, 100);
    }
    if (copy && n % (children > 8 * LIVING_COPIES ? children / LIVING_COPIES : 8) == 0)
        copy_lives(w, fork);
    if (strcmp(kind, "exit") != 0)
        drop(&own);
    if (check_failures)
        return CHILD_FAILED;
    return __atomic_load_n(&corrupt, __ATOMIC_RELAXED) ? CHILD_FAILED : 0;
}

struct start {
    struct work *work;
    int creator;
    bool nested;
    char *stack;
};

static int clone_child(void *arg)
{
    const struct start *s = arg;
    int result = child_work(s->work, s->creator, 1);
    int status = 0;

    if (s->nested) {
        struct start inner = {s->work, s->creator, false, s->stack};
        pid_t pid;

        free(handed[s->creator]);
        pid = clone(clone_child, s->stack + STACK_BYTES, CLONE_VM | CLONE_VFORK | SIGCHLD, &inner);
        if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
            result = CHILD_FAILED;
        churn(s->work, CHILD_STEPS);
    }
    _exit(result);
}

/* A copy of a child of vfork has memory of its own. A copy by the system call does not call libc's
 * fork in its turn. It may have been made while the other creator's child was in libc's fork. Then
 * libc's lock of the fork handlers is held in the copy, and no thread there releases it. */
static __attribute__((noinline)) int fork_in_child(struct work *w, int n)
{
    pid_t (*copy)(void) = n % 2 ? fork : raw_copy;
    pid_t pid = copy();
    int status = 0;

    if (pid == 0) {
        begin_copy();
        copy_lives(w, copy);
        _exit(check_failures || corrupt ? CHILD_FAILED : 0);
    }
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0 ? 0 : CHILD_FAILED;
}

static __attribute__((noinline)) pid_t by_vfork(pid_t (*call)(void), struct work *w, int creator,
                                                int n)
{
    char *const arguments[] = {"true", NULL};
    pid_t pid = call();

    if (pid == 0) {
        int result = child_work(w, creator, n);

        if (strcmp(kind, "forks") == 0 && result == 0)
            result = fork_in_child(w, n);
        if (strcmp(kind, "exit") == 0 && n % 2)
            syscall(SYS_kill, syscall(SYS_getpid), SIGKILL);
        if (exec_all || n % 16 == 0)
            if (result == 0)
                execv("/bin/true", arguments);
        _exit(result);
    }
    return pid;
}

/* Allocates until it is killed. */
static __attribute__((noreturn)) void be_killed(struct victim *v)
{
    __atomic_store_n(&v->pid, (pid_t)syscall(SYS_getpid), __ATOMIC_RELEASE);
    for (;;) {
        uint64_t r = check_random(&v->seed);
        size_t size = some_size(r >> 8);
        void **p = &v->live[r % LIVE], *is = *p;

        v->hand = r % LIVE;
        __atomic_store_n(&v->inside, 1, __ATOMIC_SEQ_CST);
        if (!is) {
            is = r >> 63 ? malloc(size) : calloc(1, size);
        } else if (r >> 62 == 0) {
            is = realloc(is, size);
        } else {
            free(is);
            is = NULL;
        }
        *p = is;
        __atomic_store_n(&v->inside, 0, __ATOMIC_SEQ_CST);
        if (is)
            *(char *)is = 1;
    }
}

static __attribute__((noinline)) pid_t killed_child(struct victim *v)
{
    pid_t pid = vfork();
    bool inside;

    if (pid == 0)
        be_killed(v);
    inside = __atomic_exchange_n(&v->inside, 0, __ATOMIC_SEQ_CST);
    v->where[inside]++;
    if (inside)
        v->live[v->hand] = NULL;
    for (int i = 0; i < LIVE; i++) {
        free(v->live[i]);
        v->live[i] = NULL;
    }
    return pid;
}

/* Kills children after a random time. */
static void *killer(void *arg)
{
    uint64_t seed = 77;

    (void)arg;
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        usleep((unsigned)(check_random(&seed) % (LATEST_KILL_US / CREATORS)));
        for (int i = 0; i < CREATORS; i++) {
            pid_t pid = __atomic_exchange_n(&victims[i].pid, 0, __ATOMIC_ACQUIRE);

            if (pid)
                kill(pid, SIGKILL);
        }
    }
    return NULL;
}

extern pid_t __vfork(void);

static pid_t create(struct work *w, int creator, int n, char *stack)
{
    struct start s = {w, creator, strcmp(kind, "nested") == 0, stack + STACK_BYTES};
    pid_t pid;

    if (strcmp(kind, "killed") == 0)
        return killed_child(&victims[creator]);
    if (strcmp(kind, "vfork") == 0 || strcmp(kind, "exit") == 0 || strcmp(kind, "forks") == 0)
        return by_vfork(vfork, w, creator, n);
    if (strcmp(kind, "__vfork") == 0)
        return by_vfork(__vfork, w, creator, n);
    if (strcmp(kind, "clone") == 0 || s.nested)
        return clone(clone_child, stack + STACK_BYTES, CLONE_VM | CLONE_VFORK | SIGCHLD, &s);
    if (strcmp(kind, "raw") == 0) {
        pid = raw_copy();
    } else {
        pid_t (*bare)(void) = (pid_t(*)(void))dlsym(RTLD_DEFAULT, "_Fork");

        if (!bare)
            SKIP("libc has no _Fork");
        pid = bare();
    }
    if (pid == 0)
        _exit(child_work(w, creator, n));
    return pid;
}

static void *creator(void *arg)
{
    int self = (int)(uintptr_t)arg;
    struct work w = {.seed = 1000 + (uintptr_t)arg};
    char *stack = malloc(2 * STACK_BYTES);

    victims[self].seed = 2000 + (uintptr_t)arg;
    for (int n = 0; n < children; n++) {
        int status = 0;
        pid_t pid;

        churn(&w, 50);
        pid = create(&w, self, n, stack);
        REQUIRE(pid > 0);
        if (handed[self]) {
            CHECK(*(char *)handed[self] == self);
            free(handed[self]);
            handed[self] = NULL;
        }
        while (waitpid(pid, &status, 0) == -1 && errno == EINTR)
            ;
        __atomic_fetch_add(&progress, 1, __ATOMIC_RELAXED);
        if ((strcmp(kind, "exit") == 0 || strcmp(kind, "killed") == 0) && WIFSIGNALED(status) &&
            WTERMSIG(status) == SIGKILL)
            status = 0;
        CHECK_SAYS(status == 0, "%s %d: status %#x", kind, n, (unsigned)status);
        if (check_failures > 20)
            break;
    }
    drop(&w);
    free(stack);
    return NULL;
}

static void on_signal(int number)
{
    (void)number;
}

/* Signals interrupt threads, in sequences and slow paths as everywhere, and make them migrate. */
static void *signaller(void *arg)
{
    const pthread_t *threads = arg;

    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        for (int i = 0; i < CHURNERS + CREATORS; i++)
            pthread_kill(threads[i], SIGUSR1);
        usleep(300);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    pthread_t threads[CHURNERS + CREATORS], signals, killing;
    bool with_signals = argc > 3, kills;

    check_begin();
    REQUIRE(argc >= 3);
    kind = argv[1];
    children = atoi(argv[2]) / CREATORS;
    exec_all = getenv("SALLOC_TEST_EXEC") != NULL;
    kills = strcmp(kind, "killed") == 0;
    sigaction(SIGUSR1, &action, NULL);
    action.sa_handler = on_alarm;
    sigaction(SIGALRM, &action, NULL);
    alarm(STUCK_SECONDS);
    for (uintptr_t i = 0; i < CHURNERS; i++)
        REQUIRE(pthread_create(&threads[i], NULL, churner, (void *)(i + 1)) == 0);
    for (uintptr_t i = 0; i < CREATORS; i++)
        REQUIRE(pthread_create(&threads[CHURNERS + i], NULL, creator, (void *)i) == 0);
    if (with_signals)
        REQUIRE(pthread_create(&signals, NULL, signaller, threads) == 0);
    if (kills)
        REQUIRE(pthread_create(&killing, NULL, killer, NULL) == 0);
    for (int i = 0; i < CREATORS; i++)
        pthread_join(threads[CHURNERS + i], NULL);
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    if (with_signals)
        pthread_join(signals, NULL);
    if (kills) {
        int inside = victims[0].where[1] + victims[1].where[1];

        pthread_join(killing, NULL);
        check_say("%d of %d were killed inside", inside, CREATORS * children);
        CHECK(inside > CREATORS * children / 10);
    }
    for (int i = 0; i < CHURNERS; i++)
        pthread_join(threads[i], NULL);
    CHECK_SAYS(!corrupt, "%d blocks had two owners", corrupt);
    return check_end();
}
