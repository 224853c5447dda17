/* SPDX-License-Identifier: Apache-2.0 */
/* What a process allocates within some seconds, from outside: the difference of two readings of
 * what each stack ever allocated. */
#ifndef SA_TOOL_READING_ALLOCATIONS_H
#define SA_TOOL_READING_ALLOCATIONS_H

#include "tool/reading/reading.h"

/*
 * Reads the process, waits, and reads it again. The difference is a profile as a recording in the
 * process would make it. To be freed by sa_outside_profile_free, also after an error.
 */
bool sa_reading_allocations(struct sa_reading *r, double seconds, struct sa_outside_profile *ret,
                            struct sa_error *e);

#endif
