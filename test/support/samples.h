/* SPDX-License-Identifier: Apache-2.0 */
/* Records of samples that no block stands behind, for tests of what is done with records. */
#ifndef TEST_SUPPORT_SAMPLES_H
#define TEST_SUPPORT_SAMPLES_H

#include "alloc/base/atomic.h"
#include "alloc/base/page.h"
#include "alloc/os/clock.h"
#include "alloc/os/percpu.h"
#include "alloc/os/thread.h"
#include "alloc/page_heap/account/peak.h"
#include "sampling/record/live_samples.h"
#include "test/support/cmocka.h"

static struct sa_span samples_span = {.start = SA_PAGE_BYTES, .pages = 1, .state = SA_SPAN_LARGE};

static inline struct sa_stack *stack_of(uintptr_t site)
{
    uintptr_t pc[] = {0x1000 + site, 0x2000, 0x3000 + site % 3};

    return sa_stack_intern(pc, 3);
}

/* A live sample that was allocated at a site just now, by this thread. */
static inline struct sa_sample *sample_add(uintptr_t site, size_t allocated, double p)
{
    struct sa_sample *s = sa_live_new();

    if (!s)
        return NULL;
    *s = (struct sa_sample){.span = &samples_span,
                            .stack = stack_of(site),
                            .p = p,
                            .interval = p < 1 ? (double)allocated / p : 1,
                            .offset = 2,
                            .hits = 3,
                            .allocated = allocated,
                            .requested = allocated - 1,
                            .time_ns = sa_clock_ns(),
                            .address = samples_span.start,
                            .thread = sa_sample_thread(),
                            .place = {-1, -1, -1}};
    sa_thread.caller_kind = 0; /* an allocation begins */
    sa_in_use_add((int64_t)allocated);
    sa_in_use_note(sa_load_relaxed(&sa_in_use.bytes), 1);
    sa_live_add(s);
    return s;
}

/* Its block is freed. */
static inline void sample_remove(struct sa_sample *s)
{
    int64_t allocated = (int64_t)s->allocated;

    sa_live_remove(s, NULL);
    sa_in_use_add(-allocated);
}

#endif
