/* SPDX-License-Identifier: Apache-2.0 */
/* Taking the stats snapshot; see stats_snapshot.h for what it promises. No state, no allocation. */
#include "stats/stats_snapshot.h"

#include "alloc/base/bits.h"
#include "alloc/base/fatal.h"
#include "alloc/base/size_class.h"
#include "alloc/cpu_cache/cpu_cache.h"
#include "alloc/cpu_cache/thread_slots.h"
#include "alloc/fork/fork_gate.h"
#include "alloc/hardening/quarantine.h"
#include "alloc/maintain/release_rate.h"
#include "alloc/middle/central_free_list.h"
#include "alloc/middle/transfer_cache.h"
#include "alloc/os/filter.h"
#include "alloc/hot/hot.h"
#include "alloc/os/own_proc.h"
#include "alloc/os/pressure.h"
#include "alloc/os/rseq.h"
#include "alloc/os/scratch.h"
#include "alloc/os/sys.h"
#include "alloc/os/vm.h"
#include "pagemap/pagemap.h"
#include "sampling/estimate/rates.h"
#include "sampling/guard/sample_quarantine.h"

#include <string.h>

const char *const sa_experiment_names[SA_EXPERIMENTS] = {
    [SA_EXPERIMENT_PER_CPU] = "SALLOC_PER_CPU",
    [SA_EXPERIMENT_LLC_DOMAINS] = "SALLOC_LLC_DOMAINS",
    [SA_EXPERIMENT_OPTIMAL_RATES] = "SALLOC_OPTIMAL_RATES",
};

const struct sa_snapshot_subject *sa_snapshot_subject;

const char *sa_snapshot_version(void)
{
    return sa_snapshot_subject ? sa_snapshot_subject->version : SALLOC_VERSION;
}

/* Reads the first two numbers of the process's statm: size and RSS, in pages of the kernel. */
static void snapshot_process(struct sa_snapshot *s)
{
    char text[128];
    size_t pages[2] = {0, 0};
    const char *p = text;

    if (sa_filtered() || sa_own_proc_read("statm", text, sizeof(text)) <= 0)
        return;
    for (int i = 0; i < 2; i++, p++)
        for (; *p >= '0' && *p <= '9'; p++)
            pages[i] = pages[i] * 10 + (size_t)(*p - '0');
    s->mapped_bytes = pages[0] * sa_vm.page_bytes;
    s->resident_bytes = pages[1] * sa_vm.page_bytes;
}

/* Puts a class among those with most fragmentation, if it is one of them. */
static void snapshot_fragmented(struct sa_snapshot *s, const struct sa_snapshot_class *c)
{
    size_t at = SA_FRAGMENTED_MAX;

    for (; at && s->fragmented[at - 1].bytes < c->fragmentation_bytes; at--)
        if (at < SA_FRAGMENTED_MAX)
            s->fragmented[at] = s->fragmented[at - 1];
    if (at < SA_FRAGMENTED_MAX) {
        s->fragmented[at].size = c->size;
        s->fragmented[at].bytes = c->fragmentation_bytes;
    }
}

static void snapshot_class(struct sa_snapshot *s, unsigned cls,
                           struct sa_class_detail *detail) SA_INSIDE_GATE
{
    const struct sa_class *k = &sa_size_classes.of[cls];
    struct sa_snapshot_class *c = &s->cls[cls];
    struct sa_class_detail d;
    size_t all;

    sa_cpu_cache_class_stats(cls, &d.cpu);
    sa_transfer_stats(cls, &d.transfer);
    sa_central_stats(cls, &d.central);
    if (detail)
        detail[cls] = d;
    c->size = k->size;
    /* An object that moves between layers while they are read may be counted twice. Each count is
     * therefore bounded by the objects that exist. */
    all = d.central.spans * k->objects + d.central.mixed_objects;
    c->central_objects = sa_min(d.central.free_objects, all);
    c->transfer_objects = sa_min(d.transfer.objects, all - c->central_objects);
    c->cpu_objects = sa_min(d.cpu.objects, all - c->central_objects - c->transfer_objects);
    c->quarantine_objects = sa_min(sa_quarantine_count(cls),
                                   all - c->central_objects - c->transfer_objects - c->cpu_objects);
    c->free_objects =
        c->cpu_objects + c->transfer_objects + c->central_objects + c->quarantine_objects;
    SA_DCHECK(c->free_objects <= all);
    c->apart_objects = sa_sampler_apart(cls);
    c->fragmentation_bytes = sa_central_excess_bytes(cls, &d.central);
    s->fragmentation_bytes += c->fragmentation_bytes;
    snapshot_fragmented(s, c);
    c->mixed_objects = d.central.mixed_objects;
    c->spans = d.central.spans;
    c->pages = d.central.pages;
    c->spans_requested = d.central.spans_requested;
    c->spans_returned = d.central.spans_returned;
    s->apart_bytes += c->apart_objects * k->size;
    s->cpu_bytes += c->cpu_objects * k->size;
    s->transfer_bytes += c->transfer_objects * k->size;
    s->sharded_bytes += sa_min(d.transfer.sharded, c->transfer_objects) * k->size;
    c->allocations = d.cpu.allocations;
    c->frees = d.cpu.frees;
    s->ever.allocations += c->allocations;
    s->ever.allocations_bytes += c->allocations * k->size;
    s->ever.frees += c->frees;
    s->ever.frees_bytes += c->frees * k->size;
    s->quarantine_bytes += c->quarantine_objects * k->size;
    s->emptied_bytes += d.central.emptied_bytes;
    s->central_bytes +=
        c->central_objects * k->size +
        d.central.spans * (((size_t)k->pages << SA_PAGE_SHIFT) - (size_t)k->objects * k->size);
}

static void snapshot_heaps(struct sa_snapshot *s)
{
    struct sa_page_heap_stats sampled;
    struct sa_quarantine_stats q;
    struct sa_sample_quarantine_stats quarantined;

    /* The quarantine comes first: a block that is freed meanwhile is still in use below. */
    sa_sample_quarantine_stats(&quarantined);
    sa_quarantine_stats(&q);
    s->quarantine_limit_bytes = q.limit_bytes;
    sa_page_heap_stats(&sa_page_heap_ordinary, &s->heap);
    sa_page_heap_stats(&sa_page_heap_sampled, &sampled);
    s->hugepage_aware = sa_page_heap_ordinary.huge != NULL;
    s->sampled_objects = sampled.spans_in_use;
    s->sampled_bytes = sampled.in_use_bytes;
    s->heap.mapped_bytes += sampled.mapped_bytes;
    s->heap.in_use_bytes += sampled.in_use_bytes;
    s->heap.backed_bytes += sampled.backed_bytes;
    s->heap.released_bytes += sampled.released_bytes;
    s->heap.moving_bytes += sampled.moving_bytes;
    s->heap.spans_in_use += sampled.spans_in_use;
    s->heap.spans_created += sampled.spans_created;
    s->heap.grown += sampled.grown;
    s->heap.released_ever_bytes += sampled.released_ever_bytes;
    /* Blocks in quarantine are in use to the page heaps, but the program has freed them. */
    quarantined.spans += q.large_blocks;
    quarantined.bytes += q.large_bytes;
    quarantined.bytes = sa_min(quarantined.bytes, s->heap.in_use_bytes);
    s->sampled_objects -= sa_min(quarantined.sampled_spans, s->sampled_objects);
    s->sampled_bytes -= sa_min(quarantined.sampled_bytes, s->sampled_bytes);
    s->heap.spans_in_use -= sa_min(quarantined.spans, s->heap.spans_in_use);
    s->heap.in_use_bytes -= quarantined.bytes;
    s->quarantined_empty_bytes =
        sa_min(s->heap.empty_bytes + sampled.empty_bytes, quarantined.bytes);
    s->quarantined_bytes = quarantined.bytes;
    s->heap.released_bytes += s->quarantined_empty_bytes;
    s->heap.backed_bytes += quarantined.bytes - s->quarantined_empty_bytes;
    /* A sampled block counts once: by its proxy if the proxy is held, else as an object of its
     * class. The rest of its pages counts as metadata. Pages of guarded blocks count as metadata
     * already. */
    s->heap.mapped_bytes += s->apart_bytes - s->sampled_bytes;
    s->heap.in_use_bytes += s->apart_bytes - s->sampled_bytes;
}

static void snapshot_sampling(struct sa_snapshot *s)
{
    int64_t interval;

    sa_sampler_stats(&s->sampler);
    interval = sa_rates_interval();
    s->sampling_interval = interval > 0 ? (size_t)interval : 0;
    sa_live_stats(&s->live);
    sa_stack_stats(&s->stacks);
    sa_sample_rates_stats(&s->rates);
    sa_guarded_stats(&s->guarded);
    sa_peak_stats(&s->peak);
}

static void snapshot_metadata(struct sa_snapshot *s)
{
    size_t known;

    s->pagemap_bytes = sa_load_relaxed(&sa_pagemap.bytes);
    s->slab_bytes = sa_cpu_cache_slab_bytes();
    s->metadata_bytes = s->arena.allocated_bytes + s->slab_bytes + s->stacks.bytes;
    s->released_bytes = s->heap.released_bytes + s->emptied_bytes + s->reserved_bytes;
    known = s->heap.mapped_bytes + s->metadata_bytes + s->arena.unallocated_bytes +
            s->arena.unavailable_bytes + s->reserved_bytes;
    /* Memory may have been mapped after system_bytes was read: known may exceed system_bytes. */
    s->other_bytes = s->system_bytes > known ? s->system_bytes - known : 0;
    s->metadata_bytes += s->other_bytes;
    s->system_bytes = known + s->other_bytes;
}

static void snapshot_limits(struct sa_snapshot *s)
{
    sa_limits_stats(SA_LIMIT_SOFT, &s->soft);
    sa_limits_stats(SA_LIMIT_HARD, &s->hard);
    sa_group_limit_stats(&s->group);
    sa_maintenance_stats(&s->maintain);
    s->release_rate = sa_release_rate_get();
    s->pressure_watched = sa_load_relaxed(&sa_pressure_watched);
    s->soft_calls = sa_load_relaxed(&sa_limits.soft_calls);
}

static void snapshot_caches(struct sa_snapshot *s)
{
    s->cpu_cache_limit = sa_cpu_cache_limit();
    s->threads_limit = sa_cpu_cache_threads_limit();
    s->domains = sa_transfer_domains();
    s->threads_in_use = sa_thread_slots_in_use();
    s->threads_created = sa_thread_slots_created();
    s->restarts = sa_load_relaxed(&sa_hot.aborts);
    s->fences = sa_load_relaxed(&sa_rseq.fences);
    s->map_failures = sa_load_relaxed(&sa_vm.map_failures);
    s->advise_failures = sa_load_relaxed(&sa_vm.advise_failures);
    s->experiment[SA_EXPERIMENT_PER_CPU] = sa_rseq.per_cpu;
    s->experiment[SA_EXPERIMENT_LLC_DOMAINS] = s->domains > 1;
    s->experiment[SA_EXPERIMENT_OPTIMAL_RATES] = s->rates.optimised;
}

/* True if the rows of the summary are the mapped bytes, and objects in caches and on spans are at
 * most those that exist. */
__attribute__((unused)) static bool snapshot_adds_up(const struct sa_snapshot *s)
{
    size_t cached = s->cpu_bytes + s->thread_bytes + s->transfer_bytes + s->central_bytes;

    return s->heap.mapped_bytes == s->in_use_bytes + cached + s->quarantine_bytes +
                                       s->heap.backed_bytes + s->heap.moving_bytes +
                                       s->heap.released_bytes + s->emptied_bytes &&
           s->released_bytes == s->heap.released_bytes + s->emptied_bytes + s->reserved_bytes &&
           s->system_bytes == sa_snapshot_actual(s) + s->released_bytes &&
           s->sharded_bytes <= s->transfer_bytes &&
           s->quarantined_empty_bytes <= s->quarantined_bytes;
}

void sa_snapshot_take_detailed(struct sa_snapshot *s, struct sa_class_detail *detail)
{
    size_t class_pages = 0, class_spans = 0, other;

    memset(s, 0, sizeof(*s));
    if (detail)
        memset(detail, 0, SA_CLASSES_MAX * sizeof(*detail));
    if (!sa_fork_gate_enter())
        return; /* a fork is in progress, and its locks must not be touched */
    s->classes = sa_size_classes.count;
    s->system_bytes = sa_vm_mapped_bytes();
    s->reserved_bytes = sa_load_relaxed(&sa_vm.reserved_bytes);
    for (unsigned cls = 1; cls < s->classes; cls++) {
        snapshot_class(s, cls, detail);
        class_pages += s->cls[cls].pages;
        class_spans += s->cls[cls].spans;
    }
    sa_mixed_stats(&s->mixed);
    s->central_bytes += s->mixed.bytes - s->mixed.used_bytes;
    s->fragmentation_bytes += s->mixed.bytes - s->mixed.used_bytes;
    class_pages += s->mixed.bytes >> SA_PAGE_SHIFT;
    class_spans += s->mixed.spans;
    sa_large_counts(&s->large);
    s->ever.allocations += s->large.allocations;
    s->ever.allocations_bytes += s->large.allocations_bytes;
    s->ever.frees += s->large.frees;
    s->ever.frees_bytes += s->large.frees_bytes;
    snapshot_heaps(s);
    sa_arena_stats(&s->arena);
    other = s->cpu_bytes + s->transfer_bytes + s->central_bytes + s->quarantine_bytes;
    if (other > s->heap.in_use_bytes) { /* spans were returned after their objects were counted */
        s->heap.mapped_bytes += other - s->heap.in_use_bytes;
        s->heap.in_use_bytes = other;
    }
    s->in_use_bytes = s->heap.in_use_bytes - other;
    s->emptied_bytes = sa_min(s->emptied_bytes, s->central_bytes);
    s->central_bytes -= s->emptied_bytes;
    s->fragmentation_bytes = sa_min(s->fragmentation_bytes, s->central_bytes);
    other = (class_pages << SA_PAGE_SHIFT) + s->apart_bytes;
    s->large_bytes = s->heap.in_use_bytes - sa_min(s->heap.in_use_bytes, other);
    other = class_spans + s->sampled_objects;
    s->large_blocks = s->heap.spans_in_use - sa_min(s->heap.spans_in_use, other);
    if (!sa_rseq.per_cpu) {
        s->thread_bytes = s->cpu_bytes;
        s->cpu_bytes = 0;
    }
    snapshot_sampling(s);
    snapshot_metadata(s);
    snapshot_caches(s);
    snapshot_limits(s);
    sa_fork_gate_leave();
    SA_DCHECK(snapshot_adds_up(s));
    if (sa_snapshot_subject) {
        s->mapped_bytes = sa_snapshot_subject->mapped_bytes;
        s->resident_bytes = sa_snapshot_subject->resident_bytes;
        return;
    }
    s->pagemap_root_resident_bytes =
        sa_vm_resident(sa_hot.home_class, sizeof(sa_hot.home_class)) +
        sa_vm_resident(sa_hot.home_any_class, sizeof(sa_hot.home_any_class)) +
        sa_vm_resident(&sa_pagemap, sizeof(sa_pagemap));
    snapshot_process(s);
}

void sa_snapshot_take(struct sa_snapshot *s)
{
    sa_snapshot_take_detailed(s, NULL);
}

/* What sa_snapshot_new gets memory for. */
struct owned {
    struct sa_snapshot snapshot;
    bool mapped; /* there was no scratch memory */
};

SA_STATIC_ASSERT(sizeof(struct owned) <= SA_SCRATCH_BYTES, "it fits");

struct sa_snapshot *sa_snapshot_new(void)
{
    struct owned *s = sa_scratch_take();
    bool mapped = !s;

    if (mapped)
        s = sa_vm_map(NULL, SA_SCRATCH_BYTES, "salloc:metadata");
    if (!s)
        return NULL;
    s->mapped = mapped;
    sa_snapshot_take(&s->snapshot);
    return &s->snapshot;
}

void sa_snapshot_drop(struct sa_snapshot *s)
{
    if (s && ((struct owned *)s)->mapped)
        sa_vm_unmap(s, SA_SCRATCH_BYTES);
    else
        sa_scratch_give(s);
}

size_t sa_snapshot_page_heap_free(const struct sa_snapshot *s)
{
    return s->heap.backed_bytes + s->heap.moving_bytes;
}

size_t sa_snapshot_actual(const struct sa_snapshot *s)
{
    return s->heap.mapped_bytes - s->heap.released_bytes - s->emptied_bytes + s->metadata_bytes +
           s->arena.unallocated_bytes + s->arena.unavailable_bytes;
}

double sa_snapshot_fragmentation(const struct sa_snapshot *s)
{
    double used = (double)s->peak.used_bytes, estimate = (double)s->peak.estimate_bytes;

    return estimate > 0 && used > estimate ? (used - estimate) / estimate : 0;
}
