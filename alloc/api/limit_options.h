/* SPDX-License-Identifier: Apache-2.0 */
/* Limits on memory by option: soft_limit, hard_limit, limit_from_cgroup. */
#ifndef SA_API_LIMIT_OPTIONS_H
#define SA_API_LIMIT_OPTIONS_H

/* From the constructor, after options were read. */
void sa_limits_read_options(void);

#endif
