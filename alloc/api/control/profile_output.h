/* SPDX-License-Identifier: Apache-2.0 */
/* The profile that the options ask for. See profile_output.c; output.h says when it is written. */
#ifndef SA_API_CONTROL_PROFILE_OUTPUT_H
#define SA_API_CONTROL_PROFILE_OUTPUT_H

#include <stdbool.h>

/* Checks the destination and starts a recording, if the type needs one. nested: as in
 * alloc/output/destination.h. False: no profile is wanted. Called once, by the constructor. */
bool sa_profile_output_register(bool nested);

/* Makes a profile and writes it. Calls are serialised by the caller. */
void sa_profile_output_write(void);

/* Called in a child of fork, once it can allocate. */
void sa_profile_output_after_fork(void);

#endif
