/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Start-up of the front end: fills the tables that the fast paths read (sa_hot), and opens the fast
 * paths. Before, every operation takes the slow path. No other file writes these tables and limits.
 * They are constant once a fast path is open.
 */
#ifndef SA_START_FAST_PATH_OPEN_H
#define SA_START_FAST_PATH_OPEN_H

#include <stddef.h>

/* Initialises the front end after the layers below, and opens the fast paths of C. cpu_cache_limit:
 * as for sa_cpu_cache_init. */
void sa_front_init(size_t cpu_cache_limit);

/* Opens the fast paths of the C++ operators, after sa_front_init. */
void sa_front_open_cxx(void);

#endif
