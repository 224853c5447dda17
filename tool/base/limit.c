/* SPDX-License-Identifier: Apache-2.0 */
/* Limits; see limit.h. No state. */
#include "tool/base/limit.h"

#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

void sa_limit_lower(int which, uint64_t most)
{
    struct rlimit limit;

    if (getrlimit(which, &limit) != 0)
        return;
    if (limit.rlim_cur > most)
        limit.rlim_cur = most;
    if (limit.rlim_max > most)
        limit.rlim_max = most;
    setrlimit(which, &limit);
}

void sa_limit_memory(uint64_t more)
{
    FILE *f = fopen("/proc/self/statm", "re");
    unsigned long pages;

    if (!f)
        return;
    if (fscanf(f, "%lu", &pages) == 1)
        sa_limit_lower(RLIMIT_AS, (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE) + more);
    fclose(f);
}
