/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded into a program besides the library: when it exits, a profile of each type is written in
 * every format, each to READERS_DUMP/TYPE.ENDING.
 */
#include "include/salloc/profile.h"

#include <stdio.h>
#include <stdlib.h>

#pragma weak salloc_snapshot_profile
#pragma weak salloc_start_allocation_profile
#pragma weak salloc_start_lifetime_profile
#pragma weak salloc_profile_token_stop
#pragma weak salloc_profile_write_file
#pragma weak salloc_profile_free

static salloc_profile_token *allocations, *lifetimes;

static void write_all(const char *type, salloc_profile *profile)
{
    static const char *const endings[] = {"pb.gz", "pb", "heap", "jeprof", "collapsed", "txt"};

    if (!profile)
        perror(type);
    for (size_t i = 0; profile && i < sizeof(endings) / sizeof(*endings); i++) {
        char path[4000];

        snprintf(path, sizeof(path), "%s/%s.%s", getenv("READERS_DUMP"), type, endings[i]);
        if (salloc_profile_write_file(profile, path) != 0)
            perror(path);
    }
    salloc_profile_free(profile);
}

static void dump(void)
{
    write_all("lifetimes", salloc_profile_token_stop(lifetimes));
    write_all("allocations", salloc_profile_token_stop(allocations));
    write_all("heap", salloc_snapshot_profile(SALLOC_PROFILE_HEAP));
    write_all("fragmentation", salloc_snapshot_profile(SALLOC_PROFILE_FRAGMENTATION));
    write_all("peak", salloc_snapshot_profile(SALLOC_PROFILE_PEAK_HEAP));
    write_all("all", salloc_snapshot_profile(SALLOC_PROFILE_ALLOCATIONS));
}

__attribute__((constructor)) static void begin(void)
{
    if (!getenv("READERS_DUMP") || !salloc_snapshot_profile)
        return;
    allocations = salloc_start_allocation_profile();
    lifetimes = salloc_start_lifetime_profile();
    atexit(dump);
}
