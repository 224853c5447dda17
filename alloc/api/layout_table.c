/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The description of the records and variables that several files know, for debuggers and
 * sallocctl: see alloc/base/layout.h. A file describes its own records itself. At the end: the note
 * that leads to the whole description. All of it is constant, and the library never reads it.
 */
#include "alloc/base/layout.h"

#include "alloc/base/first_use_index.h"
#include "alloc/base/hardening.h"
#include "alloc/base/size_class.h"
#include "alloc/cpu_cache/cpu_cache_internal.h"
#include "alloc/fork/fork_gate.h"
#include "alloc/middle/mixed_internal.h"
#include "alloc/middle/transfer_shards.h"
#include "alloc/hot/hot.h"
#include "alloc/os/rseq.h"
#include "alloc/os/vm.h"
#include "alloc/page_heap/account/footprint.h"
#include "alloc/page_heap/account/peak.h"
#include "alloc/page_heap/huge/huge_heap_internal.h"
#include "alloc/page_heap/page_heap.h"
#include "alloc/page_heap/plain/span_heap.h"
#include "pagemap/pagemap.h"
#include "sampling/record/recording.h"
#include "sampling/stack/block_history.h"
#include "sampling/stack/stack.h"

/* Raised when a change would mislead a reader that knows only earlier records. The note has it,
 * too. */
#define SA_LAYOUT_VERSION 1

extern const char sa_layout_main SA_HIDDEN;
__attribute__((used)) const char sa_layout_main = 0;

/* For reports that are made from outside. */
static const char version_text[16] = SALLOC_VERSION;

SA_LAYOUT_STATIC_ADDRESS("version", version_text);

SA_LAYOUT = {
    SA_LAYOUT_VALUE(SA_LAYOUT_VERSION),
    SA_LAYOUT_VALUE(SA_PAGE_SHIFT),
    SA_LAYOUT_VALUE(SA_HOME_START),
    SA_LAYOUT_VALUE(SA_HOME_SHIFT),
    SA_LAYOUT_VALUE(SA_ADDRESS_BITS),
    SA_LAYOUT_VALUE(SA_MAP_NODE_BITS),
    SA_LAYOUT_VALUE(SA_MAP_LEAF_BITS),
    SA_LAYOUT_VALUE(SA_SLABS),
    SA_LAYOUT_VALUE(SA_FILLED_MASK),
    SA_LAYOUT_VALUE(SA_RSEQ_CS),
    SA_LAYOUT_VALUE(SA_SHARDS_MAX),
    SA_LAYOUT_VALUE(SA_SPAN_OBJECTS),
    SA_LAYOUT_VALUE(SA_SPAN_MIXED),
    SA_LAYOUT_VALUE(SA_SPAN_LARGE),
    SA_LAYOUT_VALUE(SA_SPAN_GUARDED),
    SA_LAYOUT_VALUE(SA_SPAN_QUARANTINED),

    SA_LAYOUT_SIZE(struct sa_pagemap),
    SA_LAYOUT_FIELD(struct sa_pagemap, root),
    SA_LAYOUT_SIZE(struct sa_map_root),
    SA_LAYOUT_FIELD(struct sa_map_root, node),
    SA_LAYOUT_FIELD(struct sa_map_root, classes),

    SA_LAYOUT_FIELD(struct sa_mixed, pages),
    SA_LAYOUT_SIZE(struct sa_mixed_page),
    SA_LAYOUT_FIELD(struct sa_mixed_page, first),
    SA_LAYOUT_FIELD(struct sa_mixed_page, last),

    SA_LAYOUT_SIZE(struct sa_span),
    SA_LAYOUT_FIELD(struct sa_span, start),
    SA_LAYOUT_FIELD(struct sa_span, pages),
    SA_LAYOUT_FIELD(struct sa_span, state),
    SA_LAYOUT_FIELD(struct sa_span, cls),
    SA_LAYOUT_FIELD(struct sa_span, mixed),
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

    SA_LAYOUT_SIZE(struct sa_hot),
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

    SA_LAYOUT_SIZE(struct sa_sample),
    SA_LAYOUT_FIELD(struct sa_sample, next),
    SA_LAYOUT_FIELD(struct sa_sample, state),
    SA_LAYOUT_FIELD(struct sa_sample, peak),
    SA_LAYOUT_FIELD(struct sa_sample, proxy),
    SA_LAYOUT_FIELD(struct sa_sample, lent),
    SA_LAYOUT_FIELD(struct sa_sample, p),
    SA_LAYOUT_FIELD(struct sa_sample, interval),
    SA_LAYOUT_FIELD(struct sa_sample, offset),
    SA_LAYOUT_FIELD(struct sa_sample, hits),
    SA_LAYOUT_FIELD(struct sa_sample, align),
    SA_LAYOUT_FIELD(struct sa_sample, number),
    SA_LAYOUT_FIELD(struct sa_sample, time_ns),
    SA_LAYOUT_FIELD(struct sa_sample, kind),
    SA_LAYOUT_FIELD(struct sa_sample, guarded),
    SA_LAYOUT_FIELD(struct sa_sample, stack),
    SA_LAYOUT_FIELD(struct sa_sample, allocated),
    SA_LAYOUT_FIELD(struct sa_sample, requested),
    SA_LAYOUT_FIELD(struct sa_sample, address),
    SA_LAYOUT_FIELD(struct sa_sample, tid),
    SA_LAYOUT_FIELD(struct sa_sample, cls),
    SA_LAYOUT_FIELD(struct sa_stack, next),
    SA_LAYOUT_FIELD(struct sa_stack, hash),
    SA_LAYOUT_FIELD(struct sa_stack, totals),
    SA_LAYOUT_FIELD(struct sa_stack, depth),
    {"struct sa_stack.pc", offsetof(struct sa_stack, pc)}, /* an array of unknown length */

    SA_LAYOUT_FIELD(struct sa_sums, samples),
    SA_LAYOUT_FIELD(struct sa_sums, certain),
    SA_LAYOUT_FIELD(struct sa_sums, certain_bytes),
    SA_LAYOUT_FIELD(struct sa_sums, count),
    SA_LAYOUT_FIELD(struct sa_sums, bytes),
    SA_LAYOUT_FIELD(struct sa_sums, sampled_bytes),
    SA_LAYOUT_FIELD(struct sa_sums, count_variance),
    SA_LAYOUT_FIELD(struct sa_sums, bytes_variance),
    SA_LAYOUT_FIELD(struct sa_sums, bytes_squares),
    SA_LAYOUT_FIELD(struct sa_sums, offset_count),
    SA_LAYOUT_FIELD(struct sa_sums, offset_bytes),
    SA_LAYOUT_FIELD(struct sa_sums, hits_count),
    SA_LAYOUT_FIELD(struct sa_sums, hits_bytes),
    SA_LAYOUT_FIELD(struct sa_sums, failures),
    SA_LAYOUT_FIELD(struct sa_sums, failures_variance),
    SA_LAYOUT_FIELD(struct sa_sums, offset_count_variance),
    SA_LAYOUT_FIELD(struct sa_stack_stats, stacks),
    SA_LAYOUT_FIELD(struct sa_stack_stats, dropped),
    SA_LAYOUT_FIELD(struct sa_stack_stats, evicted_samples),

    SA_LAYOUT_FIELD(struct sa_buckets, buckets),
    SA_LAYOUT_FIELD(struct sa_buckets, count),
    SA_LAYOUT_SIZE(struct sa_bucket),
    SA_LAYOUT_FIELD(struct sa_bucket, key),
    SA_LAYOUT_FIELD(struct sa_bucket, samples),
    SA_LAYOUT_FIELD(struct sa_bucket, offsets),
    SA_LAYOUT_FIELD(struct sa_bucket, hits),
    SA_LAYOUT_FIELD(struct sa_bucket_key, stack),
    SA_LAYOUT_FIELD(struct sa_bucket_key, p),
    SA_LAYOUT_FIELD(struct sa_bucket_key, interval),
    SA_LAYOUT_FIELD(struct sa_bucket_key, allocated),
    SA_LAYOUT_FIELD(struct sa_bucket_key, requested),
    SA_LAYOUT_FIELD(struct sa_bucket_key, align),
    SA_LAYOUT_FIELD(struct sa_bucket_key, kind),
    SA_LAYOUT_FIELD(struct sa_bucket_key, guarded),
    SA_LAYOUT_FIELD(struct sa_bucket_key, tid),

    SA_LAYOUT_FIELD(struct sa_span, next),
    SA_LAYOUT_FIELD(struct sa_page_heap, huge),
    SA_LAYOUT_FIELD(struct sa_page_heap, plain),
    SA_LAYOUT_FIELD(struct sa_huge_heap, unused_spans),
    SA_LAYOUT_FIELD(struct sa_span_heap, unused),

    SA_LAYOUT_FIELD(struct cpu_cache, available_bytes),
    SA_LAYOUT_FIELD(struct cpu_cache, limit_bytes),
    SA_LAYOUT_FIELD(struct cpu_cache, underflows),
    SA_LAYOUT_FIELD(struct cpu_cache, overflows),
    SA_LAYOUT_FIELD(struct cpu_cache, reclaims),
    SA_LAYOUT_FIELD(struct cpu_cache, allocs),
    SA_LAYOUT_FIELD(struct cpu_cache, frees),
    SA_LAYOUT_FIELD(struct sa_transfer, insert_hits),
    SA_LAYOUT_FIELD(struct sa_transfer, insert_misses),
    SA_LAYOUT_FIELD(struct sa_transfer, insert_partial),
    SA_LAYOUT_FIELD(struct sa_transfer, remove_hits),
    SA_LAYOUT_FIELD(struct sa_transfer, remove_misses),
    SA_LAYOUT_FIELD(struct sa_transfer, remove_partial),
    SA_LAYOUT_FIELD(struct sa_span, idle_since_ns),
    SA_LAYOUT_FIELD(struct sa_huge_heap, recent),
    SA_LAYOUT_FIELD(struct sa_huge_heap, regions),
    SA_LAYOUT_FIELD(struct sa_huge_heap, released.root),
    SA_LAYOUT_FIELD(struct sa_huge_heap, cache.map.root),
    SA_LAYOUT_FIELD(struct sa_huge_heap, owners.home),
    SA_LAYOUT_FIELD(struct sa_huge_heap, owners.windows),
    SA_LAYOUT_FIELD(struct sa_huge_node, start),
    SA_LAYOUT_FIELD(struct sa_huge_node, length),
    SA_LAYOUT_FIELD(struct sa_huge_node, since_ns),
    SA_LAYOUT_FIELD(struct sa_huge_node, left),
    SA_LAYOUT_FIELD(struct sa_huge_node, right),
    SA_LAYOUT_FIELD(struct sa_huge_tracker, hugepage),
    SA_LAYOUT_FIELD(struct sa_huge_tracker, range.taken),
    SA_LAYOUT_FIELD(struct sa_huge_tracker, range.longest),
    SA_LAYOUT_FIELD(struct sa_huge_tracker, range.allocations),
    SA_LAYOUT_FIELD(struct sa_huge_tracker, since_ns),
    SA_LAYOUT_FIELD(struct sa_huge_tracker, taken),
    SA_LAYOUT_FIELD(struct sa_huge_tracker, unbacked),
    SA_LAYOUT_FIELD(struct sa_huge_tracker, unbacked_pages),
    SA_LAYOUT_FIELD(struct sa_huge_tracker, moving_pages),
    SA_LAYOUT_FIELD(struct sa_huge_tracker, set),
    SA_LAYOUT_FIELD(struct sa_huge_tracker, subreleased),
    SA_LAYOUT_FIELD(struct sa_huge_tracker, eager),
    SA_LAYOUT_FIELD(struct sa_huge_region, next),
    SA_LAYOUT_FIELD(struct sa_huge_region, hugepage),
    SA_LAYOUT_FIELD(struct sa_huge_region, eager),
    SA_LAYOUT_FIELD(struct sa_huge_region, range.taken),
    SA_LAYOUT_FIELD(struct sa_huge_region, range.longest),
    SA_LAYOUT_FIELD(struct sa_huge_region, range.allocations),
    SA_LAYOUT_FIELD(struct sa_huge_region, moving_pages),
    SA_LAYOUT_FIELD(struct sa_huge_region, unbacked_pages),
    SA_LAYOUT_FIELD(struct sa_huge_region, taken),
    SA_LAYOUT_FIELD(struct sa_huge_region, unbacked_in),
    SA_LAYOUT_FIELD(struct sa_huge_region, since_ns),
    SA_LAYOUT_FIELD(struct sa_huge_region, words),
    SA_LAYOUT_FIELD(struct sa_huge_region, unbacked),
    SA_LAYOUT_FIELD(struct sa_span_heap, recent),
    SA_LAYOUT_FIELD(struct sa_span_heap, backed.first),
    SA_LAYOUT_FIELD(struct sa_span_heap, released.first),

    SA_LAYOUT_FIELD(struct sa_footprint, used),
    SA_LAYOUT_FIELD(struct sa_vm, used_bytes),
    SA_LAYOUT_FIELD(struct sa_vm, reserved_bytes),
    SA_LAYOUT_FIELD(struct sa_in_use, peak),

    SA_LAYOUT_FIELD(struct sa_block_history_slot, history),
    SA_LAYOUT_FIELD(struct sa_block_history, start),
    SA_LAYOUT_FIELD(struct sa_block_history, requested),
    SA_LAYOUT_FIELD(struct sa_block_history, allocated),
    SA_LAYOUT_FIELD(struct sa_block_history, freed),
    SA_LAYOUT_FIELD(struct sa_event, stack),
    SA_LAYOUT_FIELD(struct sa_event, thread),
};

SA_LAYOUT_ADDRESS(sa_size_classes);
SA_LAYOUT_ADDRESS(sa_fork_gate);
SA_LAYOUT_ADDRESS(sa_page_heap_ordinary);
SA_LAYOUT_ADDRESS(sa_page_heap_sampled);
SA_LAYOUT_ADDRESS(sa_in_use);
SA_LAYOUT_ADDRESS(sa_stack_unknown);

/*
 * The note. Program headers lead to it. They are in memory, and stripping does not remove them. So
 * a reader finds the library in a static program, in a core, and where its file was deleted.
 *
 * The name of the note is "salloc", its type SA_LAYOUT_NOTE. Its contents are the version, the
 * bytes of a struct sa_layout, and the distances of the beginning and the end of the section
 * salloc_layout, each from the place of the number itself.
 */
#define NOTE_TEXT(number)    NOTE_TEXT_OF(number)
#define NOTE_TEXT_OF(number) #number

__asm__(
    ".hidden __start_salloc_layout\n\t"
    ".hidden __stop_salloc_layout\n\t"
    ".pushsection .note.salloc,\"a\",%note\n\t"
    ".balign 4\n\t"
    ".long 7, 24, " NOTE_TEXT(
        SA_LAYOUT_NOTE) "\n\t"
                        ".asciz \"salloc\"\n\t"
                        ".balign 4\n\t"
                        ".long " NOTE_TEXT(SA_LAYOUT_VERSION) ", 56\n\t"
                                                              ".quad __start_salloc_layout - .\n\t"
                                                              ".quad __stop_salloc_layout - .\n\t"
                                                              ".popsection");

SA_STATIC_ASSERT(sizeof(struct sa_layout) == 56, "as in the note");
