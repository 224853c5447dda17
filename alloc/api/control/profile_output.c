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
#include "alloc/api/control/profile_output.h"

#include "alloc/api/init.h"
#include "alloc/api/options/options.h"
#include "alloc/api/replaced.h"
#include "alloc/base/bits.h"
#include "alloc/base/fatal.h"
#include "alloc/fork/fork_gate.h"
#include "alloc/output/destination.h"
#include "alloc/os/vm.h"
#include "sampling/export/write.h"

#include <errno.h>
#include <string.h>

/* Attempts to make a profile. One fails after up to 50 ms if another thread forks meanwhile. */
#define TRIES 20

#define TYPES (SALLOC_PROFILE_EVENTS + 1)

/* A file that the options ask for. */
struct output_file {
    enum salloc_profile_type type;
    struct sa_destination destination;
};

static struct {
    size_t count;
    struct output_file *files; /* mapped */
    /* For each type of file: the running recording; NULL: none, or the type needs none. */
    salloc_profile_token *recordings[TYPES];
} profiles;

/* Starts a recording, if the type needs one. NULL: it could not, or none is needed. */
static salloc_profile_token *output_start(enum salloc_profile_type type)
{
    if (type == SALLOC_PROFILE_ALLOCATIONS)
        return salloc_start_allocation_profile();
    if (type == SALLOC_PROFILE_EVENTS)
        return salloc_start_event_trace(sa_options.event_bytes);
    return type == SALLOC_PROFILE_LIFETIMES ? salloc_start_lifetime_profile() : NULL;
}

/* Returns the profile of the running recording and starts the next one. NULL with errno: none. A
 * recording that cannot be stopped now goes on. */
static salloc_profile *output_exchange(enum salloc_profile_type type)
{
    salloc_profile_token **recording = &profiles.recordings[type];
    salloc_profile *profile = NULL;
    int error = EAGAIN; /* no recording: after the last stop, the next start failed */

    if (!sa_fork_gate_enter()) {
        errno = EAGAIN;
        return NULL;
    }
    if (*recording) {
        profile = salloc_profile_token_stop(*recording);
        error = errno;
    }
    if (profile || error == EINVAL)
        *recording = NULL;
    if (!*recording)
        *recording = output_start(type);
    sa_fork_gate_leave();
    errno = error;
    return profile;
}

static salloc_profile *output_profile(enum salloc_profile_type type)
{
    return type >= SALLOC_PROFILE_ALLOCATIONS ? output_exchange(type)
                                              : salloc_snapshot_profile(type);
}

/* Returns whether there is a file of that type. */
static bool output_has(enum salloc_profile_type type)
{
    for (size_t i = 0; i < profiles.count; i++)
        if (profiles.files[i].type == type)
            return true;
    return false;
}

/* Makes one profile and writes it to all files of its type. */
static void output_write(enum salloc_profile_type type)
{
    salloc_profile *profile = NULL;
    int error = EAGAIN;

    for (int i = 0; i < TRIES && !profile && error == EAGAIN; i++) {
        profile = output_profile(type);
        error = profile ? 0 : errno;
    }
    for (size_t i = 0; i < profiles.count; i++) {
        struct sa_destination *d = &profiles.files[i].destination;

        if (profiles.files[i].type != type)
            continue;
        if (profile)
            error = -sa_profile_write_to((const struct sa_profile *)profile, d);
        sa_destination_tell(d, "profile ", d->pattern, error);
    }
    salloc_profile_free(profile);
}

void sa_profile_output_write(void)
{
    if (sa_replaced_serves_nobody())
        return;
    for (int type = 0; type < TYPES; type++)
        if (output_has((enum salloc_profile_type)type))
            output_write((enum salloc_profile_type)type);
}

/* Adds a file. quiet: prints nothing. */
static void output_add(const char *path, enum salloc_profile_type type, bool nested, bool quiet)
{
    struct output_file *file = &profiles.files[profiles.count];

    if (sa_profile_check_path(path) != 0 || !sa_profile_path_fits(path, type)) {
        if (!quiet)
            sa_warn("SALLOC_CONF: profile:%s: unknown ending or placeholder, or the ending of "
                    "another type; doc/profiles.md has them",
                    path);
        return;
    }
    file->type = type;
    if (sa_destination_keep(&file->destination, path, nested) != 0 && !quiet)
        sa_destination_complain("profile ", file->destination.pattern, file->destination.told);
    profiles.count++;
}

bool sa_profile_output_register(bool nested)
{
    const char *all = sa_options.profile.text;
    bool quiet = sa_replaced_serves_nobody();
    char path[SA_OPTION_PATH_MAX];

    if (!*all)
        return false;
    sa_init();
    profiles.files = sa_vm_map(NULL, sa_align_up(SA_PROFILES_MAX * sizeof(*profiles.files), 65536),
                               "salloc output");
    if (!profiles.files && !quiet)
        sa_destination_complain("profile ", all, ENOMEM);
    for (size_t i = 0; *all && profiles.files; i++) {
        size_t n = strcspn(all, ",");

        memcpy(path, all, n);
        path[n] = '\0';
        output_add(path, (enum salloc_profile_type)sa_options.profile_type.of[i], nested, quiet);
        all += n + (all[n] == ',');
    }
    for (int type = 0; type < TYPES; type++)
        if (output_has((enum salloc_profile_type)type))
            profiles.recordings[type] = output_start((enum salloc_profile_type)type);
    return profiles.count > 0;
}

void sa_profile_output_after_fork(void)
{
    for (size_t i = 0; i < profiles.count; i++)
        sa_destination_after_fork(&profiles.files[i].destination);
}
