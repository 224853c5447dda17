/* SPDX-License-Identifier: Apache-2.0 */
/* Profiles without code: the options profile, profile_type and profile_signal. */
#ifndef SA_API_PROFILE_OUTPUT_H
#define SA_API_PROFILE_OUTPUT_H

#include <stdbool.h>

/* From the constructor. */
void sa_profile_output_register(void);

/* In a child of fork, when allocation is possible again. threads: and threads can be made. */
void sa_profile_output_after_fork(bool threads);

#endif
