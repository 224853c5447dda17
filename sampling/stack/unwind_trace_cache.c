/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes traces (unwind_trace_cache.h). In a child that was forked while another thread wrote a
 * trace, the sequence of that trace stays odd, and the child never uses it.
 */
#include "sampling/stack/unwind_trace_cache.h"

#include "alloc/base/bits.h"
#include "alloc/base/fatal.h"
#include "sampling/stack/unwind.h"

#ifdef SA_UNWIND_FAST

struct sa_trace sa_trace_caches[1 << SA_TRACE_CACHE_BITS];
uint8_t sa_trace_cache_numbers[1 << SA_TRACE_CACHE_BITS];
static uint8_t numbers_used; /* traces given out; atomic, relaxed */

#define FRAME_MAX (1 << 30) /* bytes of a frame, as in unwind_fast.c */

/* Two threads that call this at the same time may get one trace for two places. A trace is only a
 * guess of the rules to come, so that is harmless. */
struct sa_trace *sa_trace_cache_first_of(uint8_t *number)
{
    unsigned n = sa_min(sa_load_relaxed(&numbers_used) + 1u, 1u << SA_TRACE_CACHE_BITS);

    SA_DCHECK(n > 0 && n <= 1u << SA_TRACE_CACHE_BITS);
    sa_store_relaxed(&numbers_used, (uint8_t)n);
    sa_store_relaxed(number, (uint8_t)n);
    return &sa_trace_caches[n - 1];
}

bool sa_trace_cache_is_plain(uint64_t rule)
{
    int64_t cfa = (int64_t)rule >> 32, rbp = (int16_t)(rule >> 16);

    if ((rule & 0xffff & ~(uint64_t)SA_RULE_RBP_AT_CFA) != SA_RULE_FRAME || cfa < 8 ||
        cfa > FRAME_MAX || cfa % 8)
        return false;
    return !(rule & SA_RULE_RBP_AT_CFA) || (rbp % 8 == 0 && rbp <= -8 && rbp >= -cfa);
}

void sa_trace_cache_set(struct sa_trace *trace, const struct sa_trace_recorded *recorded)
{
    uint32_t sequence = sa_load_relaxed(&trace->sequence);

    SA_DCHECK(recorded->count <= SA_TRACE_CACHE_STEPS);
    if (sequence % 2 || !sa_cas_acquire(&trace->sequence, &sequence, sequence + 1))
        return;
    /* A reader that sees one of the stores below also sees the odd sequence above. */
    __atomic_thread_fence(__ATOMIC_RELEASE);
    for (uint32_t i = 0; i < recorded->count; i++) {
        sa_store_relaxed(&trace->step[i].pc, recorded->step[i].pc);
        sa_store_relaxed(&trace->step[i].rule, recorded->step[i].rule);
    }
    sa_store_relaxed(&trace->count, recorded->count);
    sa_store_relaxed(&trace->left, 0);
    sa_store_release(&trace->sequence, sequence + 2);
}

#endif
