/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs with a hook (hook.c) before or behind the library. Every call of the program's is seen by
 * the hook once, has its effect, and ends. usage: chain hook|none
 */
#include "test/outside/check.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static unsigned none(const char *name)
{
    (void)name;
    return 0;
}

static unsigned (*calls)(const char *name);
static bool hooked;

#define SEEN(name, call)                                                                           \
    do {                                                                                           \
        unsigned before = calls(name);                                                             \
                                                                                                   \
        CHECK(call);                                                                               \
        CHECK_SAYS(calls(name) - before == (hooked ? 1 : 0), "%s was seen %u times", name,         \
                   calls(name) - before);                                                          \
    } while (0)

static int child(void *arg)
{
    free(malloc(100));
    return *(int *)arg;
}

static bool run_child(int flags)
{
    static char stack[1 << 16] __attribute__((aligned(16)));
    int seven = 7, status, pid = clone(child, stack + sizeof(stack), flags | SIGCHLD, &seven);

    return pid > 0 && waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 7;
}

int main(int argc, char **argv)
{
    char *p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char name[16] = "", *q;

    REQUIRE(argc == 2 && p != MAP_FAILED);
    hooked = strcmp(argv[1], "hook") == 0;
    calls = hooked ? (unsigned (*)(const char *))dlsym(RTLD_DEFAULT, "hook_calls") : none;
    REQUIRE(calls);
    alarm(20);
    for (int i = 0; i < 3; i++) {
        SEEN("dlopen", dlopen("libm.so.6", RTLD_NOW) != NULL);
        SEEN("dlopen", dlopen("/nowhere/libnothing.so", RTLD_NOW) == NULL && dlerror());
        SEEN("dlclose", dlclose(dlopen("libm.so.6", RTLD_NOW)) == 0);
        SEEN("dlmopen", dlmopen(LM_ID_BASE, "libm.so.6", RTLD_NOW) != NULL);
        p[0] = 1;
        SEEN("madvise", madvise(p, 4096, MADV_DONTNEED) == 0 && !p[0]);
        SEEN("madvise", madvise(p, 4096, 12345) == -1 && errno == EINVAL);
        SEEN("mprotect", mprotect(p, 4096, PROT_READ) == 0);
        SEEN("mprotect", mprotect(p, 4096, PROT_READ | PROT_WRITE) == 0);
        SEEN("mlock", mlock(p, 4096) == 0);
        munlock(p, 4096);
        SEEN("pkey_mprotect", pkey_mprotect(p, 4096, PROT_READ | PROT_WRITE, -1) == 0);
        SEEN("prctl", prctl(PR_SET_NAME, "looked_up", 0, 0, 0) == 0);
        SEEN("prctl", prctl(PR_GET_NAME, name, 0, 0, 0) == 0 && strcmp(name, "looked_up") == 0);
        SEEN("prctl", prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
        SEEN("syscall", syscall(SYS_getpid) == getpid());
        SEEN("syscall", syscall(SYS_madvise, p, 4096ul, MADV_DONTDUMP) == 0);
        SEEN("syscall", syscall(SYS_madvise, p, 4096ul, 12345) == -1 && errno == EINVAL);
        SEEN("syscall", (q = (char *)syscall(SYS_mmap, NULL, 8192ul, PROT_READ | PROT_WRITE,
                                             MAP_PRIVATE | MAP_ANONYMOUS, -1l, 0ul)) &&
                            !q[8191] && munmap(q, 8192) == 0);
        SEEN("clone", run_child(0));
        SEEN("clone", run_child(CLONE_VM | CLONE_VFORK));
        free(malloc(1 << 20));
    }
    return check_end();
}
