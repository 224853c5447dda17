/* SPDX-License-Identifier: Apache-2.0 */
/* Contents of blocks that tests write and look for later, and the check that nothing is left
 * over. */
#ifndef TEST_SUPPORT_BLOCKS_H
#define TEST_SUPPORT_BLOCKS_H

#include "alloc/maintain/maintenance.h"
#include "test/support/cmocka.h"
#include "test/support/counts.h"

#include <string.h>

static inline void assert_nothing_in_use(void)
{
    sa_maintenance_release(PTRDIFF_MAX);
    assert_int_equal(heap_in_use(), 0);
}

/* A byte that depends on the block and the place in it. */
static inline unsigned char pattern(unsigned seed, size_t at)
{
    return (unsigned char)(seed * 31 + at * 7 + (at >> 8));
}

static inline void fill(unsigned char *p, size_t n, unsigned seed)
{
    for (size_t i = 0; i < n; i++)
        p[i] = pattern(seed, i);
}

static inline void assert_filled(const unsigned char *p, size_t n, unsigned seed)
{
    for (size_t i = 0; i < n; i++)
        if (p[i] != pattern(seed, i))
            fail_msg("block %u of %zu bytes changed at %zu", seed, n, i);
}

static inline bool is_zero(const unsigned char *p, size_t n)
{
    return n == 0 || (p[0] == 0 && memcmp(p, p + 1, n - 1) == 0);
}

#endif
