/* SPDX-License-Identifier: Apache-2.0 */
/* When the stats page and the profile are written that the options ask for. See output.c. */
#ifndef SA_API_OUTPUT_H
#define SA_API_OUTPUT_H

#include <stdbool.h>

/* Applies the options. Called once, by the constructor. */
void sa_output_register(void);

/* Called in a child of fork, once it can allocate. threads: whether it may create threads. */
void sa_output_after_fork(bool threads);

#endif
