/* SPDX-License-Identifier: Apache-2.0 */
/* Start of the library: the one place that knows all modules and their order; see init.c. Any
 * thread may call sa_init, without a lock held. */
#ifndef SA_API_INIT_H
#define SA_API_INIT_H

#include "alloc/base/atomic.h"
#include "alloc/base/attrs.h"

extern unsigned char sa_init_done; /* atomic: release under INIT, once; acquire by readers */

/* Takes INIT and initialises the allocator, unless another thread has. Leaves errno unchanged. */
SA_COLD void sa_init_slow(void);

/* Initialises the allocator unless that has been done. The first call in every slow path of the API
 * and in every public function. */
SA_INLINE void sa_init(void)
{
    if (SA_UNLIKELY(!sa_load_acquire(&sa_init_done)))
        sa_init_slow();
}

#endif
