/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded into a program besides the library: when it exits, one profile of its heap is written in every
 * format, to the path in READERS_DUMP with the ending of each.
 */
#include "include/salloc/profile.h"

#include <stdio.h>
#include <stdlib.h>

#pragma weak salloc_snapshot_profile
#pragma weak salloc_profile_write_file

static void dump(void)
{
    static const char *const endings[] = {"pb.gz", "pb", "heap", "jeprof", "collapsed", "txt"};
    const char *to = getenv("READERS_DUMP");
    salloc_profile *profile =
        to && salloc_snapshot_profile ? salloc_snapshot_profile(SALLOC_PROFILE_HEAP) : NULL;

    for (size_t i = 0; profile && i < sizeof(endings) / sizeof(*endings); i++) {
        char path[4000];

        snprintf(path, sizeof(path), "%s.%s", to, endings[i]);
        if (salloc_profile_write_file(profile, path) != 0)
            perror(path);
    }
}

__attribute__((constructor)) static void begin(void)
{
    atexit(dump);
}
