/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The maintenance thread: a program that frees and then calls nothing has its memory back with the
 * system within ten seconds; the thread blocks all signals, has a name, sleeps when there is
 * nothing to do, comes again in a child of fork, goes when asked to, and keeps no process from its
 * end.
 *
 * usage: thread FUNCTION (the program starts it) | OPTION (SALLOC_CONF has) | NONE (nobody does:
 * there is none)
 */
#include "include/salloc/salloc.h"
#include "test/outside/limits/tasks.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/* Beside what was freed: what the heap keeps, caches of the CPUs. */
#if SA_HARDENED /* each of 8 MiB of blocks in the quarantine may be alone on a page of 8 KiB */
#define KEPT (12 * MIB + 72 * MIB)
#else
#define KEPT (12 * MIB)
#endif

static int (*start_thread)(void), (*stop_thread)(void);
static unsigned (*process)(void);
static int (*set_rate)(size_t);

/* A word of a thread's status file; 0: there is none. */
static unsigned long status_of(const char *thread, const char *field, int base)
{
    char path[64], text[4096], *at;
    ssize_t n;
    int fd;

    snprintf(path, sizeof(path), "/proc/self/task/%s/status", thread);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = '\0';
    at = strstr(text, field);
    return at ? strtoul(at + strlen(field), NULL, base) : 0;
}

/* The number of the maintenance thread in name; false: there is none. */
static bool find_thread(char name[32])
{
    return find_task("salloc-maintain", name);
}

/* Within a while: a thread begins or ends by itself. */
static bool there_is_a_thread(bool expected)
{
    return there_is("salloc-maintain", expected);
}

/* Uses and frees blocks of a size; then calls nothing. */
static void test_idle(size_t size)
{
    size_t before = resident(), n = 512 * MIB / size;
    void *first = NULL;
    double begun;

    for (size_t i = 0; i < n; i++) {
        void **p = malloc(size);

        REQUIRE(p);
        memset(p, 1, size);
        *p = first;
        first = p;
    }
    CHECK(resident() > before + 450 * MIB); /* what was left from before is used again */
    while (first) {
        void *next = *(void **)first;

        free(first);
        first = next;
    }
    begun = check_now();
    while (resident() > before + KEPT && check_now() - begun < 10)
        usleep(50000);
    CHECK_SAYS(resident() <= before + KEPT, "blocks of %zu: %zu MiB, before %zu MiB", size,
               resident() / MIB, before / MIB);
}

static void test_thread_is_quiet(void)
{
    unsigned long wakes = 0;
    char name[32];

    REQUIRE(find_thread(name));
    /* All of the ordinary ones but SIGKILL and SIGSTOP, which cannot be. */
    CHECK_SAYS((status_of(name, "SigBlk:", 16) & 0x7fffffff) == 0x7ffbfeff, "blocked are %lx",
               status_of(name, "SigBlk:", 16));
    /* Once it has seen that nothing happens. */
    for (int i = 0; i < 8; i++) {
        wakes = status_of(name, "\nvoluntary_ctxt_switches:", 10);
        sleep(3);
        wakes = status_of(name, "\nvoluntary_ctxt_switches:", 10) - wakes;
        if (wakes <= 1)
            break;
    }
    CHECK_SAYS(wakes <= 1, "%lu wakes in three seconds", wakes);
}

static void in_child(bool by_option)
{
    pid_t child = fork();
    int status;

    if (child == 0) {
        char name[32];

        CHECK(!find_thread(name)); /* not before it does something */
        for (int i = 0; i < 200 && !find_thread(name); i++) {
            free(malloc(MIB));
            usleep(10000);
        }
        CHECK(find_thread(name));
        if (!by_option) {
            CHECK(stop_thread() == 0);
            CHECK(!there_is_a_thread(false));
        }
        exit(check_end()); /* does not wait for the thread */
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

/* What it is for: with one thread a process may do this, if it may at all. */
static void test_stop(void)
{
    char name[32];

    CHECK(stop_thread() == 0);
    CHECK(!there_is_a_thread(false));
    CHECK(unshare(CLONE_NEWUSER) == 0 || errno != EINVAL);
    for (int i = 0; i < 100; i++) {
        free(malloc(MIB));
        usleep(10000);
    }
    CHECK(!find_thread(name)); /* and it does not come again by itself */
    CHECK(stop_thread() == 0);
    for (int i = 0; i < 50; i++) {
        CHECK(start_thread() == 0);
        CHECK(stop_thread() == 0);
    }
}

/* A program with a thread of its own for this, and the release rate. */
static void test_own_thread(void)
{
    size_t (*get_rate)(void) = (size_t(*)(void))dlsym(RTLD_DEFAULT, "salloc_get_release_rate");
    size_t before, after, steady;
    void *p[32];
    double begun;

    REQUIRE(get_rate);
    CHECK(get_rate() == 0);
    errno = 0;
    CHECK(set_rate(SIZE_MAX) == -1 && errno == ERANGE);
    CHECK(set_rate(4 * MIB) == 0 && get_rate() == 4 * MIB);
    CHECK(check_property("tcmalloc.background_release_rate") == 4 * MIB);
    process();
    before = check_property("salloc.page_heap_free_bytes");
    for (int i = 0; i < 32; i++) {
        p[i] = malloc(MIB);
        memset(p[i], 1, MIB);
    }
    for (int i = 0; i < 32; i++)
        free(p[i]);
    /* What is used again and again is not idle, so that only the rate gives it back. */
    begun = check_now();
    while (check_now() - begun < 2.5) {
        unsigned ms = process();

        CHECK_SAYS(ms == 500 || ms == 4000, "%u ms", ms);
        free(memset(malloc(24 * MIB), 1, 24 * MIB));
        usleep(100000);
    }
    after = check_property("salloc.page_heap_free_bytes");
    steady = check_property("tcmalloc.num_released_process_background_actions_bytes");
    CHECK_SAYS(steady >= 4 * MIB && steady <= 16 * MIB, "%zu bytes by the rate; %zu, %zu free",
               steady, before, after);
    CHECK(set_rate(0) == 0);
    begun = check_now();
    while (check_property("salloc.page_heap_free_bytes") > 2 * MIB && check_now() - begun < 8)
        usleep(process() * 1000 / 2);
    CHECK(check_property("salloc.page_heap_free_bytes") <= 2 * MIB);
}

int main(int argc, char **argv)
{
    char name[32];

    check_begin();
    REQUIRE(argc == 2);
    start_thread = (int (*)(void))dlsym(RTLD_DEFAULT, "salloc_start_maintenance_thread");
    stop_thread = (int (*)(void))dlsym(RTLD_DEFAULT, "salloc_stop_maintenance_thread");
    process = (unsigned (*)(void))dlsym(RTLD_DEFAULT, "salloc_process_background_actions");
    set_rate = (int (*)(size_t))dlsym(RTLD_DEFAULT, "salloc_set_release_rate");
    REQUIRE(start_thread && stop_thread && process && set_rate);
    if (strcmp(argv[1], "NONE") == 0) {
        for (int i = 0; i < 100; i++) {
            free(malloc(MIB));
            usleep(10000);
        }
        CHECK(!find_thread(name));
        test_own_thread();
        return check_end();
    }
    if (strcmp(argv[1], "FUNCTION") == 0) {
        CHECK(!find_thread(name));
        CHECK(start_thread() == 0);
        CHECK(start_thread() == 0);
    } else {
        free(malloc(MIB));
    }
    CHECK(there_is_a_thread(true));
    test_idle(1000);
    if (strcmp(argv[1], "FUNCTION") == 0) {
        test_idle(300000);
        test_idle(512 * MIB);
        test_thread_is_quiet();
    }
    in_child(strcmp(argv[1], "OPTION") == 0);
    test_stop();
    return check_end();
}
