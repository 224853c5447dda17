/* SPDX-License-Identifier: Apache-2.0 */
/* Estimates one metric over any set of a profile's samples. The function keeps no state, takes no
 * lock and allocates nothing; the caller's match function is its own. */
#ifndef SA_SAMPLING_SNAPSHOT_MATCHING_H
#define SA_SAMPLING_SNAPSHOT_MATCHING_H

#include "sampling/profile/profile.h"

/* Does what salloc_profile_estimate_matching promises (include/salloc/profile.h). Requires
 * arguments that are not NULL. Returns 0, or -EINVAL (invalid query, or a metric that the type of
 * profile does not have) or -ENODATA (the kernel did not tell). */
int sa_profile_estimate_matching(const struct sa_profile *profile,
                                 const struct salloc_profile_query *query,
                                 struct salloc_interval *ret);

#endif
