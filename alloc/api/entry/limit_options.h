/* SPDX-License-Identifier: Apache-2.0 */
/* Limits on memory by option: soft_limit, hard_limit, limit_from_cgroup, group_limit. */
#ifndef SA_API_ENTRY_LIMIT_OPTIONS_H
#define SA_API_ENTRY_LIMIT_OPTIONS_H

/* Applies the options. Called once, by the constructor, after the options were read. soft_limit and
 * hard_limit replace what limit_from_cgroup has set. */
void sa_limits_read_options(void);

#endif
