/* SPDX-License-Identifier: Apache-2.0 */
/* What maintenance and fork do to the caches while other threads use them. */
#ifndef TEST_SUPPORT_CACHE_DISTURB_H
#define TEST_SUPPORT_CACHE_DISTURB_H

#include "alloc/cpu_cache/cpu_cache.h"
#include "alloc/middle/transfer_cache.h"
#include "alloc/os/rseq.h"

#define CACHE_DISTURBANCES 5

/* Does number n of CACHE_DISTURBANCES. */
static inline void cache_disturb(unsigned n)
{
    switch (n) {
    case 0:
        sa_cpu_cache_kick();
        break;
    case 1:
        sa_cpu_cache_drain(-1);
        break;
    case 2:
        sa_cpu_cache_tick();
        break;
    case 3:
        sa_transfer_plunder();
        break;
    default: /* as fork does */
        if (sa_rseq.per_cpu) {
            sa_cpu_cache_stop_all();
            sa_cpu_cache_resume_all();
        }
    }
}

#endif
