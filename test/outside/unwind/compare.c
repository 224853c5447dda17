/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded into a program, captures the stack of every so many calls of malloc in both ways
 * (sampling/stack/unwind.h) and compares them. At exit it appends a line to the file UNWIND_COMPARE
 * names, and before it up to ten stacks that differ. UNWIND_EVERY: how many calls.
 */
#include "sampling/stack/stack.h"
#include "sampling/stack/unwind.h"
#include "sampling/stack/unwind_cfi.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

void *__libc_malloc(size_t bytes);

static unsigned every, calls;
static struct {
    unsigned long stacks, frames, other, differ;
} sums;

/* How many walks took how long, for the median: the mean is that of the scheduler. */
#define STEP_NS 10
#define STEPS   10000

static unsigned own_times[STEPS], libgcc_times[STEPS];
static _Thread_local int inside;

static unsigned long now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (unsigned long)t.tv_sec * 1000000000 + (unsigned long)t.tv_nsec;
}

static void count_time(unsigned *times, unsigned long ns)
{
    unsigned long step = ns / STEP_NS;

    __atomic_fetch_add(&times[step < STEPS ? step : STEPS - 1], 1, __ATOMIC_RELAXED);
}

static unsigned long median(const unsigned *times)
{
    unsigned long below = 0;
    unsigned step = 0;

    while (step < STEPS - 1 && (below += times[step]) * 2 < sums.stacks)
        step++;
    return (unsigned long)step * STEP_NS;
}

static int open_report(void)
{
    const char *path = getenv("UNWIND_COMPARE");

    return path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
}

static void print(int fd, const char *what, const uintptr_t *pc, unsigned n)
{
    Dl_info info;

    dprintf(fd, "# %s, %u frames\n", what, n);
    for (unsigned i = 0; i < n; i++) {
        memset(&info, 0, sizeof(info));
        dladdr((void *)(pc[i] - 1), &info);
        dprintf(fd, "#   %p %s+%#lx %s\n", (void *)pc[i], info.dli_fname ? info.dli_fname : "?",
                (unsigned long)(pc[i] - (uintptr_t)info.dli_fbase),
                info.dli_sname ? info.dli_sname : "?");
    }
}

/* Whether nothing describes the code of a frame. libgcc ends there; the fast unwinder goes on by
 * the frame pointer. */
static bool is_undescribed(uintptr_t pc)
{
    struct sa_unwind_object o;

    return !sa_unwind_object_find(pc - 1, &o) || sa_unwind_rule(&o, pc - 1) == SA_RULE_NONE;
}

/* Whether the stacks are the same, as far as libgcc goes. */
static bool agree(const uintptr_t *own, unsigned n, const uintptr_t *libgcc, unsigned m)
{
    return n >= m && memcmp(own, libgcc, m * sizeof(*own)) == 0 &&
           (n == m || (m && is_undescribed(libgcc[m - 1])));
}

__attribute__((noinline)) static void compare(const void *frame)
{
    uintptr_t own[SA_STACK_MAX], libgcc[SA_STACK_MAX];
    unsigned n = 0, m = 0;
    unsigned long t[3];
    bool done = false, own_first = __atomic_fetch_add(&sums.stacks, 1, __ATOMIC_RELAXED) % 2;
    int fd;

    /* Whoever comes second finds the stack in the processor's caches: take turns. */
    t[0] = now();
    if (own_first)
        done = sa_unwind_fast(frame, false, own, SA_STACK_MAX, &n);
    else
        m = sa_unwind_libgcc(frame, libgcc, SA_STACK_MAX);
    t[1] = now();
    if (own_first)
        m = sa_unwind_libgcc(frame, libgcc, SA_STACK_MAX);
    else
        done = sa_unwind_fast(frame, false, own, SA_STACK_MAX, &n);
    t[2] = now();
    count_time(own_times, own_first ? t[1] - t[0] : t[2] - t[1]);
    count_time(libgcc_times, own_first ? t[2] - t[1] : t[1] - t[0]);
    __atomic_fetch_add(&sums.frames, m, __ATOMIC_RELAXED);
    if (!done) {
        if (__atomic_fetch_add(&sums.other, 1, __ATOMIC_RELAXED) < 2 && (fd = open_report()) >= 0) {
            print(fd, "libgcc only", libgcc, m);
            close(fd);
        }
    } else if (!agree(own, n, libgcc, m)) {
        if (__atomic_fetch_add(&sums.differ, 1, __ATOMIC_RELAXED) < 10 &&
            (fd = open_report()) >= 0) {
            print(fd, "own", own, n);
            print(fd, "libgcc", libgcc, m);
            close(fd);
        }
    }
}

__attribute__((visibility("default"))) void *malloc(size_t bytes)
{
    if (every && __atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED) % every == 0 && !inside) {
        inside = 1;
        compare(__builtin_dwarf_cfa());
        inside = 0;
    }
    return __libc_malloc(bytes);
}

__attribute__((constructor)) static void start(void)
{
    const char *value = getenv("UNWIND_EVERY");

    every = value ? (unsigned)atoi(value) : 64;
}

__attribute__((destructor)) static void report(void)
{
    int fd = open_report();

    every = 0;
    if (fd < 0 || !sums.stacks)
        return;
    dprintf(fd, "%s stacks %lu frames %lu other %lu differ %lu own_ns %lu libgcc_ns %lu\n",
            program_invocation_short_name, sums.stacks, sums.frames, sums.other, sums.differ,
            median(own_times), median(libgcc_times));
    close(fd);
}
