/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making profiles: of the moment, and of recordings. Samples are copied with the lock held and
 * sorted into rows without it. The caller is inside the gate, so that no fork happens in between;
 * but not while what is resident is read, which takes long in a large process.
 */
#ifndef SA_SAMPLING_SNAPSHOT_PROFILE_SNAPSHOT_H
#define SA_SAMPLING_SNAPSHOT_PROFILE_SNAPSHOT_H

#include "sampling/profile/profile.h"

/* A profile, or NULL with a positive error number: EINVAL (type), ENOMEM. */
struct sa_profile *sa_snapshot_profile(enum salloc_profile_type type, int *ret_error);

/* Finds out which part of a HEAP profile's samples is resident. Once; outside of the gate. */
void sa_snapshot_measure(struct sa_profile *profile);

/* Stops a recording: its profile, or NULL with EINVAL (no such recording), ENOMEM (it goes on). */
struct sa_profile *sa_snapshot_stop(uint64_t handle, int *ret_error);

#endif
