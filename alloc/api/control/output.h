/* SPDX-License-Identifier: Apache-2.0 */
/* When the stats page and the profile are written that the options ask for. See output.c. */
#ifndef SA_API_CONTROL_OUTPUT_H
#define SA_API_CONTROL_OUTPUT_H

#include "alloc/api/options/options.h"

#include <stdbool.h>

/* Applies the options. Called once, by the constructor. */
void sa_output_register(void);

/* Returns whether the signal that this option names (stats_signal, profile_signal) has another
 * handler than that of the constructor. */
bool sa_output_signal_is_replaced(enum sa_option_key key);

/* Called in a child of fork, once it can allocate. threads: whether it may create threads. */
void sa_output_after_fork(bool threads);

#endif
