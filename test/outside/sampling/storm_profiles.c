/* SPDX-License-Identifier: Apache-2.0 */
/* The workers of the storm that use the profile functions. */
#include "test/outside/sampling/storm.h"

#include "include/salloc/profile.h"
#include "test/outside/check.h"

#include <errno.h>

void storm_interval(uint64_t *random)
{
    static const int64_t intervals[] = {1024, 1024, 1024, 1, 4096, 512 << 10, 0, -5, INT64_MAX};
    int64_t interval = intervals[check_random(random) % 9];

    REQUIRE(salloc_set_sampling_interval(interval) == 0 || errno == EAGAIN);
    REQUIRE(salloc_get_sampling_interval() >= 0);
    usleep(interval == 1024 ? 30000 : 2000);
}

struct seen {
    size_t rows;
    double bytes;
};

static int look(const struct salloc_profile_sample *s, void *arg)
{
    struct seen *seen = arg;

    REQUIRE(s->depth <= 64 && (s->stack || !s->depth));
    REQUIRE(s->inuse_bytes >= 0 && s->alloc_bytes >= 0);
    for (size_t i = 0; i < s->depth; i++)
        REQUIRE(s->stack[i]);
    seen->rows++;
    seen->bytes += s->inuse_bytes;
    return 0;
}

static void examine(const salloc_profile *profile)
{
    struct salloc_estimate estimate;
    struct seen seen = {0, 0};

    REQUIRE(salloc_profile_iterate(profile, look, &seen) == 0);
    if (salloc_profile_estimate(profile, NULL, 0, SALLOC_ESTIMATE_WEIGHTED, 0.95, &estimate) == 0)
        REQUIRE(estimate.bytes_low <= estimate.bytes && estimate.bytes <= estimate.bytes_high);
}

static salloc_profile *snapshot(uint64_t *random)
{
    salloc_profile *profile =
        salloc_snapshot_profile((enum salloc_profile_type)(check_random(random) % 4));

    REQUIRE(profile || errno == EAGAIN);
    return profile;
}

void storm_snapshot(uint64_t *random)
{
    salloc_profile *profile = snapshot(random);

    if (profile)
        examine(profile);
    salloc_profile_free(profile);
}

void storm_record(uint64_t *random)
{
    static salloc_profile_token *running[20];
    salloc_profile_token **token = &running[check_random(random) % 20];
    salloc_profile *profile;

    if (*token) {
        profile = salloc_profile_token_stop(*token);
        REQUIRE(profile || errno == EAGAIN);
        if (!profile)
            return;
        REQUIRE(!salloc_profile_token_stop(*token) && (errno == EINVAL || errno == EAGAIN));
        *token = NULL;
        examine(profile);
        salloc_profile_free(profile);
    } else {
        *token = check_random(random) % 2 ? salloc_start_allocation_profile()
                                          : salloc_start_lifetime_profile();
        REQUIRE(*token || errno == EAGAIN);
    }
    usleep(1000);
}

void storm_write(uint64_t *random)
{
    static const char *const endings[] = {"pb.gz", "pb", "heap", "jeprof", "collapsed", "txt"};
    const char *ending = endings[check_random(random) % 6];
    salloc_profile *profile = snapshot(random);
    char path[4096];

    if (!profile)
        return;
    snprintf(path, sizeof(path), "%s/%%e.%%p.%s", storm.scratch, ending);
    if (salloc_profile_write_file(profile, path) != 0)
        check_say("%s: %s", path, strerror(errno));
    salloc_profile_free(profile);
    snprintf(path, sizeof(path), "%s/sampling_storm.%d.%s", storm.scratch, (int)getpid(), ending);
    REQUIRE(unlink(path) == 0);
}
