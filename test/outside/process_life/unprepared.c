/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first call that a process makes of the library comes from .preinit_array, before the
 * library's constructor and before any allocation, and is each exported function in turn. What the
 * library has made ready by then is nothing.
 */
#include "test/outside/check.h"

#include "include/salloc/profile.h"
#include "include/salloc/salloc.h"

#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static size_t one;
static char text[64];

static int child(void *arg)
{
    return arg != NULL;
}

static void do_fork(void)
{
    pid_t pid = fork();

    if (pid == 0)
        _exit(0);
    waitpid(pid, NULL, 0);
}

static void do_vfork(void)
{
    pid_t pid = vfork();

    if (pid == 0)
        _exit(0);
    waitpid(pid, NULL, 0);
}

static void do_clone(void)
{
    static char stack[1 << 16] __attribute__((aligned(16)));

    waitpid(clone(child, stack + sizeof(stack), CLONE_VM | CLONE_VFORK | SIGCHLD, NULL), NULL, 0);
}

static void do_raw(void)
{
    pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);

    if (pid == 0)
        _exit(0);
    waitpid(pid, NULL, 0);
}

static void see(const struct salloc_sample_event *event, void *arg)
{
    (void)event;
    (void)arg;
}

#define FUNCTIONS(WITH)                                                                            \
    WITH(free(NULL))                                                                               \
    WITH(malloc_usable_size(NULL))                                                                 \
    WITH(malloc_trim(0))                                                                           \
    WITH(mallopt(M_TRIM_THRESHOLD, -1))                                                            \
    WITH(mallinfo2())                                                                              \
    WITH(malloc_info(0, stdout))                                                                   \
    WITH(dlopen("libm.so.6", RTLD_NOW))                                                            \
    WITH(dlclose(dlopen("libm.so.6", RTLD_NOW)))                                                   \
    WITH(dlsym(RTLD_DEFAULT, "malloc"))                                                            \
    WITH(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))                                                   \
    WITH(syscall(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))                                      \
    WITH(mlock(text, sizeof(text)))                                                                \
    WITH(mlockall(MCL_CURRENT))                                                                    \
    WITH(madvise((void *)0xc0000000000, 4096, MADV_DONTFORK))                                      \
    WITH(do_fork())                                                                                \
    WITH(do_vfork())                                                                               \
    WITH(do_clone())                                                                               \
    WITH(do_raw())                                                                                 \
    WITH(salloc_version())                                                                         \
    WITH(salloc_start_maintenance_thread())                                                        \
    WITH(salloc_stop_maintenance_thread())                                                         \
    WITH(salloc_process_background_actions())                                                      \
    WITH(salloc_set_release_rate(1000))                                                            \
    WITH(salloc_get_release_rate())                                                                \
    WITH(salloc_worth_moving(text))                                                                \
    WITH(salloc_defragment_targets(NULL, 0, 0))                                                    \
    WITH(salloc_add_sample_hook(see, NULL))                                                        \
    WITH(salloc_remove_sample_hook(see, NULL))                                                     \
    WITH(salloc_start_event_trace(1 << 20))                                                        \
    WITH(salloc_get_stats())                                                                       \
    WITH(salloc_get_stats_json())                                                                  \
    WITH(salloc_get_stats_prometheus())                                                            \
    WITH(salloc_get_numeric_property("salloc.max_total_thread_cache_bytes", &one))                 \
    WITH(salloc_set_numeric_property("salloc.max_total_thread_cache_bytes", 1 << 20))              \
    WITH(salloc_release_free_memory(1))                                                            \
    WITH(salloc_get_estimated_allocated_size(100))                                                 \
    WITH(salloc_get_allocated_size(NULL))                                                          \
    WITH(salloc_get_ownership(text))                                                               \
    WITH(salloc_get_ownership((void *)0xc0000000000))                                              \
    WITH(salloc_discover_topology())                                                               \
    WITH(salloc_set_memory_limit(0, 1 << 30))                                                      \
    WITH(salloc_get_memory_limit(0))                                                               \
    WITH(salloc_set_soft_limit_callback(NULL, NULL))                                               \
    WITH(salloc_get_sampling_interval())                                                           \
    WITH(salloc_set_sampling_interval(1 << 16))                                                    \
    WITH(salloc_set_profile_threads(1))                                                            \
    WITH(salloc_start_allocation_profile())                                                        \
    WITH(salloc_start_lifetime_profile())                                                          \
    WITH(salloc_snapshot_profile(0))                                                               \
    WITH(salloc_profile_token_stop(NULL))                                                          \
    WITH(salloc_profile_free(NULL))                                                                \
    WITH(salloc_set_option("sample_interval", "64k"))                                              \
    WITH(salloc_get_option("sample_interval", text, sizeof(text)))

#define CALL(call)                                                                                 \
    if (which == n++)                                                                              \
        (void)(call);
#define NAME(call) #call,

static const char *const names[] = {FUNCTIONS(NAME)};

/* argv[1]: the number of the call; none: the program that starts the others. */
static void preinit(int argc, char **argv)
{
    int which = argc > 1 ? atoi(argv[1]) : -1, n = 0;

    FUNCTIONS(CALL)
}

__attribute__((section(".preinit_array"), used)) static void (*preinit_entry)(int,
                                                                              char **) = preinit;

int main(int argc, char **argv)
{
    const int count = (int)(sizeof(names) / sizeof(names[0]));
    pid_t pid;
    int status;

    check_begin();
    if (argc > 1) {
        void *p = malloc(100), *q = malloc(1 << 20);

        CHECK(p && q && salloc_get_allocated_size(q) >= 1 << 20);
        free(p);
        free(q);
        return check_end();
    }
    for (int i = 0; i < count; i++) {
        char number[12];

        snprintf(number, sizeof(number), "%d", i);
        REQUIRE(posix_spawn(&pid, argv[0], NULL, NULL, (char *[]){argv[0], number, NULL},
                            environ) == 0);
        REQUIRE(waitpid(pid, &status, 0) == pid);
        CHECK_SAYS(status == 0, "%s: status %#x", names[i], (unsigned)status);
    }
    return check_end();
}
