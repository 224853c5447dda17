/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Budgets; see budget.h. RLIMIT_DATA bounds private memory that can be written to, touched or not
 * (VmData of /proc/PID/status). So a bound on it is one on the resident memory of the process, but
 * for its stack, its code and pages of files.
 */
#include "tool/base/budget.h"

#include "alloc/os/cgroup.h"
#include "tool/base/human.h"

#include <malloc.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#define SHARE        4           /* of what is left, a command may take one part in so many */
#define MAPPED_BYTES (128 << 10) /* of an allocation that malloc maps by itself */

static struct {
    bool begun;
    struct rlimit before;
    uint64_t data;  /* VmData may be so much */
    uint64_t bytes; /* of the budget */
    char who[64];   /* whose limit it is a share of */
    bool of_most;   /* less than that share */
} budget;

/* A number of a line "NAME: NUMBER kB" of a file, in bytes; 0: not known. */
static uint64_t read_kib(const char *path, const char *name)
{
    FILE *file = fopen(path, "re");
    unsigned long long kib = 0;
    char line[256];

    while (file && fgets(line, sizeof(line), file))
        if (strncmp(line, name, strlen(name)) == 0 &&
            sscanf(line + strlen(name), ": %llu", &kib) == 1)
            break;
    if (file)
        fclose(file);
    return (uint64_t)kib << 10;
}

/* What is left, and who leaves the least. */
struct left {
    uint64_t bytes;
    char who[64];
};

static void take_least(struct left *left, uint64_t bytes, const char *who)
{
    if (bytes >= left->bytes)
        return;
    left->bytes = bytes;
    snprintf(left->who, sizeof(left->who), "%s", who);
}

static void read_limit(struct left *left, int which, const char *used, const char *who)
{
    struct rlimit limit;
    uint64_t bytes = read_kib("/proc/self/status", used);

    if (which == RLIMIT_DATA && budget.begun)
        limit = budget.before;
    else if (getrlimit(which, &limit) != 0)
        return;
    if (limit.rlim_cur != RLIM_INFINITY)
        take_least(left, limit.rlim_cur > bytes ? limit.rlim_cur - bytes : 0, who);
}

static void read_group(struct left *left)
{
    static struct sa_cgroup group;
    struct sa_cgroup_room room;
    char who[64], limit[SA_HUMAN_BYTES];

    sa_cgroup_find(&group, "");
    sa_cgroup_read_room(&group, &room);
    if (room.limit == SA_CGROUP_NONE)
        return;
    sa_human_bytes((double)room.limit, limit);
    snprintf(who, sizeof(who), "the memory cgroup (limit %s)", limit);
    take_least(left, room.room > 0 ? (uint64_t)room.room : 0, who);
}

static void read_left(struct left *ret)
{
    uint64_t available = read_kib("/proc/meminfo", "MemAvailable");

    *ret = (struct left){.bytes = UINT64_MAX};
    if (available)
        take_least(ret, available, "the machine");
    read_group(ret);
    read_limit(ret, RLIMIT_AS, "VmSize", "ulimit -v");
    read_limit(ret, RLIMIT_DATA, "VmData", "ulimit -d");
}

uint64_t sa_budget_quarter(void)
{
    struct left left;

    read_left(&left);
    return left.bytes == UINT64_MAX ? UINT64_MAX : left.bytes / SHARE;
}

/* Has the kernel enforce the budget; it cannot be more than what was allowed before. */
static void enforce(void)
{
    struct rlimit limit = {budget.data, budget.before.rlim_max};

    if (limit.rlim_cur > budget.before.rlim_cur)
        limit.rlim_cur = budget.before.rlim_cur;
    budget.begun = setrlimit(RLIMIT_DATA, &limit) == 0;
}

void sa_budget_begin(uint64_t most)
{
    struct left left;

    if (!budget.begun && getrlimit(RLIMIT_DATA, &budget.before) != 0)
        return;
    read_left(&left);
    if (left.bytes == UINT64_MAX)
        return;
    budget.bytes = left.bytes / SHARE;
    budget.of_most = most < budget.bytes;
    if (budget.of_most)
        budget.bytes = most;
    budget.data = read_kib("/proc/self/status", "VmData") + budget.bytes;
    strcpy(budget.who, left.who);
    enforce();
    /* A fixed bound: what is longer is mapped, grows without a copy, and goes back when it is
     * freed. */
    mallopt(M_MMAP_THRESHOLD, MAPPED_BYTES);
}

void sa_budget_end(void)
{
    if (budget.begun)
        setrlimit(RLIMIT_DATA, &budget.before);
    budget.begun = false;
}

void sa_budget_add_file(uint64_t bytes)
{
    if (!budget.begun)
        return;
    budget.data += bytes;
    enforce();
}

uint64_t sa_budget_rest(void)
{
    uint64_t used = read_kib("/proc/self/status", "VmData");

    if (!budget.begun)
        return UINT64_MAX;
    return used < budget.data ? budget.data - used : 0;
}

void sa_budget_describe(char *ret, size_t cap)
{
    char bytes[SA_HUMAN_BYTES];

    ret[0] = '\0';
    if (!budget.begun)
        return;
    sa_human_bytes((double)budget.bytes, bytes);
    snprintf(ret, cap, "at most %s, %s of what %s leaves", bytes,
             budget.of_most ? "a part" : "a quarter", budget.who);
}
