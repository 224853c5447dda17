/* SPDX-License-Identifier: Apache-2.0 */
/* Start of the library: the one place that knows all modules and their order. */
#ifndef SA_API_INIT_H
#define SA_API_INIT_H

#include "alloc/base/atomic.h"
#include "alloc/base/attrs.h"

extern unsigned char sa_init_done; /* atomic: release by init, acquire by users */

SA_COLD void sa_init_slow(void);

/* Called first in every slow path and public function. */
SA_INLINE void sa_init(void)
{
    if (SA_UNLIKELY(!sa_load_acquire(&sa_init_done)))
        sa_init_slow();
}

#endif
