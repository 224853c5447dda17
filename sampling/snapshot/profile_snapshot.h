/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes profiles: of the present moment, and of recordings. Samples are copied under SAMPLES, and
 * sorted into buckets without a lock. The caller is inside the fork gate, so that no fork comes in
 * between. sa_snapshot_measure is called outside of the gate, because it takes long in a large
 * process.
 */
#ifndef SA_SAMPLING_SNAPSHOT_PROFILE_SNAPSHOT_H
#define SA_SAMPLING_SNAPSHOT_PROFILE_SNAPSHOT_H

#include "sampling/profile/profile.h"

/* Returns a profile of the present moment, which the caller frees with sa_profile_free. NULL:
 * stores a positive error number: EINVAL (a type that only recordings have) or ENOMEM. */
struct sa_profile *sa_snapshot_profile(enum salloc_profile_type type, int *ret_error);

/* Finds out which part of a HEAP profile's blocks is resident, swapped, locked or zero. The caller
 * is the only one who knows the profile, and calls this at most once for it. Other types are left
 * as they are. */
void sa_snapshot_measure(struct sa_profile *profile);

/* Stops a recording and returns its profile, which the caller frees with sa_profile_free. NULL:
 * stores EINVAL (no such recording) or ENOMEM (the recording goes on). */
struct sa_profile *sa_snapshot_stop(uint64_t handle, int *ret_error);

#endif
