/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads of the library that a real-time thread makes: whatever the creator's policy and CPUs,
 * they run under SCHED_OTHER on the CPUs that the process had at the start. The maintenance thread
 * is made anew for each policy; the thread of the control socket exists from the start on.
 */
#include "include/salloc/salloc.h"
#include "test/outside/limits/tasks.h"

#include <sched.h>

static cpu_set_t process;

static void check_thread(const char *task, const char *what)
{
    char name[32];
    cpu_set_t cpus;
    int tid;

    REQUIRE(there_is(task, true) && find_task(task, name));
    tid = atoi(name);
    CHECK_SAYS(sched_getscheduler(tid) == SCHED_OTHER, "%s, %s: policy %d", task, what,
               sched_getscheduler(tid));
    CPU_ZERO(&cpus);
    REQUIRE(sched_getaffinity(tid, sizeof(cpus), &cpus) == 0);
    CHECK_SAYS(CPU_EQUAL(&cpus, &process), "%s, %s: %d of %d CPUs", task, what, CPU_COUNT(&cpus),
               CPU_COUNT(&process));
}

static const struct {
    const char *name;
    int policy, priority;
    bool pinned;
} creators[] = {
    {"SCHED_FIFO, pinned", SCHED_FIFO, 50, true},
    {"SCHED_RR", SCHED_RR, 1, false},
    {"SCHED_BATCH, pinned", SCHED_BATCH, 0, true},
    {"SCHED_OTHER, pinned", SCHED_OTHER, 0, true},
};

int main(void)
{
    int (*start)(void) = dlsym(RTLD_DEFAULT, "salloc_start_maintenance_thread");
    int (*stop)(void) = dlsym(RTLD_DEFAULT, "salloc_stop_maintenance_thread");
    cpu_set_t one;

    check_begin();
    REQUIRE(start && stop && sched_getaffinity(0, sizeof(process), &process) == 0);
    CPU_ZERO(&one);
    for (int cpu = CPU_SETSIZE - 1; cpu >= 0; cpu--)
        if (CPU_ISSET(cpu, &process)) {
            CPU_SET(cpu, &one);
            break;
        }
    check_thread("salloc-control", "constructor");
    for (size_t i = 0; i < sizeof(creators) / sizeof(creators[0]); i++) {
        struct sched_param param = {.sched_priority = creators[i].priority};

        REQUIRE(sched_setaffinity(0, sizeof(one), creators[i].pinned ? &one : &process) == 0);
        if (sched_setscheduler(0, creators[i].policy, &param) != 0) {
            check_say("%s: no right to it", creators[i].name);
            continue;
        }
        REQUIRE(start() == 0);
        check_thread("salloc-maintain", creators[i].name);
        REQUIRE(stop() == 0);
    }
    return check_end();
}
