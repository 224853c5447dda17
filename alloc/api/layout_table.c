/* SPDX-License-Identifier: Apache-2.0 */
/* What a debugger is told of records and variables that several files know; see
 * alloc/base/layout.h. */
#include "alloc/base/layout.h"

#include "alloc/base/first_use_index.h"
#include "alloc/base/hardening.h"
#include "alloc/base/size_class.h"
#include "alloc/cpu_cache/cpu_cache_internal.h"
#include "alloc/fork/fork_gate.h"
#include "alloc/middle/transfer_shards.h"
#include "alloc/os/percpu.h"
#include "alloc/os/rseq.h"
#include "alloc/page_heap/page_heap.h"
#include "pagemap/pagemap.h"
#include "sampling/record/recording.h"
#include "sampling/stack/block_history.h"
#include "sampling/stack/stack.h"

/* More than 1 when a debugger that knows only records of now would be misled. */
#define SA_LAYOUT_VERSION 1

extern const char sa_layout_main SA_HIDDEN;
__attribute__((used)) const char sa_layout_main = 0;

SA_LAYOUT = {
    SA_LAYOUT_VALUE(SA_LAYOUT_VERSION),
    SA_LAYOUT_VALUE(SA_PAGE_SHIFT),
    SA_LAYOUT_VALUE(SA_HOME_SHIFT),
    SA_LAYOUT_VALUE(SA_ADDRESS_BITS),
    SA_LAYOUT_VALUE(SA_MAP_NODE_BITS),
    SA_LAYOUT_VALUE(SA_MAP_LEAF_BITS),
    SA_LAYOUT_VALUE(SA_SLABS),
    SA_LAYOUT_VALUE(SA_FILLED_MASK),
    SA_LAYOUT_VALUE(SA_RSEQ_CS),
    SA_LAYOUT_VALUE(SA_SHARDS_MAX),
    SA_LAYOUT_VALUE(SA_SPAN_OBJECTS),
    SA_LAYOUT_VALUE(SA_SPAN_LARGE),
    SA_LAYOUT_VALUE(SA_SPAN_GUARDED),
    SA_LAYOUT_VALUE(SA_SPAN_KEPT),

    SA_LAYOUT_FIELD(struct sa_pagemap, root),
    SA_LAYOUT_SIZE(struct sa_map_root),
    SA_LAYOUT_FIELD(struct sa_map_root, node),

    SA_LAYOUT_SIZE(struct sa_span),
    SA_LAYOUT_FIELD(struct sa_span, start),
    SA_LAYOUT_FIELD(struct sa_span, pages),
    SA_LAYOUT_FIELD(struct sa_span, state),
    SA_LAYOUT_FIELD(struct sa_span, cls),
    SA_LAYOUT_FIELD(struct sa_span, requested),
    SA_LAYOUT_FIELD(struct sa_span, more_bits),
    SA_LAYOUT_FIELD(struct sa_span, bits),
    SA_LAYOUT_FIELD(struct sa_span, sample),
    SA_LAYOUT_FIELD(struct sa_span, objects),
    SA_LAYOUT_FIELD(struct sa_span, live),

    SA_LAYOUT_FIELD(struct sa_size_classes, count),
    SA_LAYOUT_FIELD(struct sa_size_classes, of),
    SA_LAYOUT_SIZE(struct sa_class),
    SA_LAYOUT_FIELD(struct sa_class, size),

    SA_LAYOUT_FIELD(struct sa_hot, rseq_offset),
    SA_LAYOUT_FIELD(struct sa_hot, mid_limit),
    SA_LAYOUT_FIELD(struct sa_hot, aborts),
    SA_LAYOUT_SIZE(struct sa_header),
    SA_LAYOUT_FIELD(struct sa_header, state),
    SA_LAYOUT_FIELD(struct sa_header, slots),
    SA_LAYOUT_FIELD(struct cpu_cache, slab),
    SA_LAYOUT_FIELD(struct sa_rseq, per_cpu),
    SA_LAYOUT_FIELD(struct sa_rseq, reason),

    SA_LAYOUT_SIZE(struct sa_transfer),
    SA_LAYOUT_FIELD(struct sa_transfer, used),
    SA_LAYOUT_FIELD(struct sa_transfer, slots),
    SA_LAYOUT_FIELD(struct sa_transfer_others, at),

    SA_LAYOUT_FIELD(struct sa_fork_gate, debugger),
    SA_LAYOUT_FIELD(struct sa_hardening, on),

    SA_LAYOUT_FIELD(struct sa_sample, stack),
    SA_LAYOUT_FIELD(struct sa_sample, allocated),
    SA_LAYOUT_FIELD(struct sa_sample, requested),
    SA_LAYOUT_FIELD(struct sa_sample, address),
    SA_LAYOUT_FIELD(struct sa_sample, tid),
    SA_LAYOUT_FIELD(struct sa_sample, cls),
    SA_LAYOUT_FIELD(struct sa_stack, depth),
    {"struct sa_stack.pc", offsetof(struct sa_stack, pc)}, /* no array of known length */

    SA_LAYOUT_FIELD(struct sa_block_history_slot, history),
    SA_LAYOUT_FIELD(struct sa_block_history, start),
    SA_LAYOUT_FIELD(struct sa_block_history, requested),
    SA_LAYOUT_FIELD(struct sa_block_history, allocated),
    SA_LAYOUT_FIELD(struct sa_block_history, freed),
    SA_LAYOUT_FIELD(struct sa_event, stack),
    SA_LAYOUT_FIELD(struct sa_event, thread),
};

SA_LAYOUT_ADDRESS(sa_pagemap);
SA_LAYOUT_ADDRESS(sa_size_classes);
SA_LAYOUT_ADDRESS(sa_hot);
SA_LAYOUT_ADDRESS(sa_rseq);
SA_LAYOUT_ADDRESS(sa_cpu_caches);
SA_LAYOUT_ADDRESS(sa_first_use);
SA_LAYOUT_ADDRESS(sa_transfer_first);
SA_LAYOUT_ADDRESS(sa_transfer_others);
SA_LAYOUT_ADDRESS(sa_fork_gate);
SA_LAYOUT_ADDRESS(sa_hardening);
