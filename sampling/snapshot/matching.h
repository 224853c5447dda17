/* SPDX-License-Identifier: Apache-2.0 */
/* Estimates of one metric over any set of a profile's samples. No state, no lock, no allocation. */
#ifndef SA_SAMPLING_SNAPSHOT_MATCHING_H
#define SA_SAMPLING_SNAPSHOT_MATCHING_H

#include "sampling/profile/profile.h"

/* As salloc_profile_estimate_matching, of arguments that are not NULL: 0 or a negative error
 * number. */
int sa_profile_estimate_matching(const struct sa_profile *profile,
                                 const struct salloc_profile_query *query,
                                 struct salloc_interval *ret);

#endif
