/* SPDX-License-Identifier: Apache-2.0 */
/* Changing sampling probabilities; see sample_rates.h. */
#include "alloc/front/sample_rates.h"

#include "alloc/front/cpu_cache.h"
#include "alloc/os/lock.h"
#include "sampling/rates.h"

static struct sa_lock rates_lock; /* RATES */

void sa_sample_rates_set_interval(int64_t bytes)
{
    sa_lock_acquire(&rates_lock, SA_RANK_RATES);
    sa_rates_set_interval(bytes);
    sa_cpu_cache_rearm();
    sa_lock_release(&rates_lock, SA_RANK_RATES);
}
