/* SPDX-License-Identifier: Apache-2.0 */
/* The release rate: passes of maintenance release so many bytes a second, whether or not demand for
 * them is likely, as long as any are free. */
#ifndef SA_MAINTAIN_RELEASE_RATE_H
#define SA_MAINTAIN_RELEASE_RATE_H

#include "alloc/os/lock.h"

#include <stddef.h>
#include <stdint.h>

/* Bytes per second; 0: none. Any thread. */
void sa_release_rate_set(size_t bytes);
size_t sa_release_rate_get(void);

/* Releases what has become due since the last pass, in at most ten seconds. If less is free, the
 * rest is forgotten. now: the coarse clock. */
void sa_release_rate_apply(uint64_t now) SA_REQUIRES(SA_RANK_MAINTAIN);

/* The bytes that were released because of it, since the start. */
uint64_t sa_release_rate_bytes(void);

#endif
