/* SPDX-License-Identifier: Apache-2.0 */
/* Looking at what is sampled. */
#ifndef TEST_SUPPORT_SAMPLED_H
#define TEST_SUPPORT_SAMPLED_H

#include "alloc/base/bits.h"
#include "alloc/base/size_class.h"
#include "alloc/fork/fork_gate.h"
#include "alloc/front/slow_path.h"
#include "alloc/maintain/sample_rates.h"
#include "alloc/page_heap/page_heap.h"
#include "pagemap/pagemap.h"
#include "sampling/record/live_samples.h"
#include "sampling/sampler/sampler.h"
#include "test/support/blocks.h"

#define MIB (1ul << 20)

static inline void set_interval(int64_t interval)
{
    sa_fork_gate_enter();
    sa_sample_rates_set_interval(interval);
    sa_fork_gate_leave();
}

static inline struct sa_live_stats live(void)
{
    struct sa_live_stats s;

    sa_live_stats(&s);
    return s;
}

static inline struct sa_sampler_stats taken(void)
{
    struct sa_sampler_stats s;

    sa_sampler_stats(&s);
    return s;
}

static inline size_t sampled_in_use(void)
{
    struct sa_page_heap_stats s;

    sa_page_heap_stats(&sa_page_heap_sampled, &s);
    return s.in_use_bytes;
}

static inline bool own_page(const void *p)
{
    return sa_page_heap_sampled_address((uintptr_t)p);
}

/* Nothing is left: no sample, no page, no proxy on any span. */
static inline void assert_nothing_left(void)
{
    assert_int_equal(live().samples, 0);
    assert_true(live().bytes == 0);
    assert_int_equal(sampled_in_use(), 0);
    assert_nothing_in_use();
}

#endif
