/* SPDX-License-Identifier: Apache-2.0 */
/* Profiles without code: the options profile, profile_type and profile_signal. See
 * profile_output.c. */
#ifndef SA_API_PROFILE_OUTPUT_H
#define SA_API_PROFILE_OUTPUT_H

#include <stdbool.h>

/* Applies the options. Called once, by the constructor. */
void sa_profile_output_register(void);

/* Called in a child of fork, once it can allocate. threads: whether it may create threads. */
void sa_profile_output_after_fork(bool threads);

#endif
