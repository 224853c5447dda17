/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the profiles that the options ask for, and writes them; see doc/tuning.md.
 *
 * One recording is stopped and the next one started within one passage of the fork gate, so that a
 * child of fork always has a running recording.
 *
 * The lock `writing` of output.c guards the variables. The constructor and the handler of fork
 * write them, too: no other thread uses them then.
 */
#include "alloc/api/profile_output.h"

#include "alloc/api/init.h"
#include "alloc/api/options.h"
#include "alloc/api/replaced.h"
#include "alloc/base/fatal.h"
#include "alloc/fork/fork_gate.h"
#include "alloc/os/destination.h"
#include "sampling/export/write.h"

#include <errno.h>

/* Attempts to make a profile. One fails after up to 50 ms if another thread forks meanwhile. */
#define TRIES 20

static struct {
    salloc_profile_token *recording; /* the running recording, or NULL */
    struct sa_destination destination;
} profiles;

/* Whether the profile is made from a recording. */
static bool output_records(void)
{
    return sa_options.profile_type == SALLOC_PROFILE_ALLOCATIONS ||
           sa_options.profile_type == SALLOC_PROFILE_LIFETIMES;
}

/* Starts a recording of the type that the options ask for. NULL: it could not, or none is
 * needed. */
static salloc_profile_token *output_start(void)
{
    if (!output_records())
        return NULL;
    return sa_options.profile_type == SALLOC_PROFILE_ALLOCATIONS ? salloc_start_allocation_profile()
                                                                 : salloc_start_lifetime_profile();
}

/* Returns the profile of the running recording and starts the next one. NULL with errno: none. A
 * recording that cannot be stopped now goes on. */
static salloc_profile *output_exchange(void)
{
    salloc_profile *profile = NULL;
    int error = EAGAIN; /* no recording: after the last stop, the next start failed */

    if (!sa_fork_gate_enter()) {
        errno = EAGAIN;
        return NULL;
    }
    if (profiles.recording) {
        profile = salloc_profile_token_stop(profiles.recording);
        error = errno;
    }
    if (profile || error == EINVAL)
        profiles.recording = NULL;
    if (!profiles.recording)
        profiles.recording = output_start();
    sa_fork_gate_leave();
    errno = error;
    return profile;
}

static salloc_profile *output_profile(void)
{
    return output_records() ? output_exchange() : salloc_snapshot_profile(sa_options.profile_type);
}

void sa_profile_output_write(void)
{
    salloc_profile *profile = NULL;
    int error = EAGAIN;

    if (sa_replaced_serves_nobody())
        return;
    for (int i = 0; i < TRIES && !profile && error == EAGAIN; i++) {
        profile = output_profile();
        error = profile ? 0 : errno;
    }
    if (profile)
        error = -sa_profile_write_to((const struct sa_profile *)profile, &profiles.destination);
    salloc_profile_free(profile);
    sa_destination_tell(&profiles.destination, "profile ", profiles.destination.pattern, error);
}

/* Whether the options ask for a profile with an ending and placeholders that are known. */
static bool output_wanted(void)
{
    return sa_options.profile.text[0] && sa_profile_check_path(sa_options.profile.text) == 0;
}

/* Prints what is wrong with the destination, if anything. */
static void output_complain(void)
{
    if (!output_wanted())
        sa_warn("SALLOC_CONF: profile:%s: unknown ending or placeholder; doc/profiles.md has them",
                sa_options.profile.text);
    else if (profiles.destination.told)
        sa_destination_complain("profile ", profiles.destination.pattern,
                                profiles.destination.told);
}

bool sa_profile_output_register(void)
{
    bool wanted = output_wanted();

    if (wanted) {
        sa_destination_keep(&profiles.destination, sa_options.profile.text);
        profiles.recording = output_start();
    }
    if (sa_options.profile.text[0] && !sa_replaced_serves_nobody())
        output_complain();
    return wanted;
}

void sa_profile_output_after_fork(void)
{
    if (output_wanted())
        sa_destination_after_fork(&profiles.destination);
}
