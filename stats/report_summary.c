/* SPDX-License-Identifier: Apache-2.0 */
/* The sections of the stats page that tell of the whole; see report_internal.h. */
#include "alloc/os/rseq.h"
#include "alloc/os/vm.h"
#include "sampling/record/recording.h"
#include "stats/report_internal.h"

static void row(struct sa_fmt *f, char sign, size_t bytes, const char *what)
{
    sa_fmt_add(f, "MALLOC: %c %12zu (%7m MiB) %s\n", sign, bytes, bytes, what);
}

/* A number of things, and one of things with the bytes that they take. */
static void count(struct sa_fmt *f, size_t n, const char *what)
{
    sa_fmt_add(f, "MALLOC:   %12zu               %s\n", n, what);
}

static void count_bytes(struct sa_fmt *f, size_t n, size_t bytes, const char *what)
{
    sa_fmt_add(f, "MALLOC:   %12zu (%7m MiB) %s\n", n, bytes, what);
}

void sa_report_summary(struct sa_fmt *f, const struct sa_snapshot *s)
{
    size_t actual = sa_snapshot_actual(s);

    sa_fmt_add(f, "See salloc/doc/stats.md for an explanation of this page\n" SA_REPORT_RULE);
    row(f, ' ', s->in_use_bytes, "Bytes in use by application");
    row(f, '+', sa_snapshot_page_heap_free(s), "Bytes in page heap freelist");
    row(f, '+', s->central_bytes, "Bytes in central cache freelist");
    row(f, '+', s->cpu_bytes, "Bytes in per-CPU cache freelist");
    row(f, '+', s->transfer_bytes, "Bytes in transfer cache freelist");
    row(f, '+', s->thread_bytes, "Bytes in thread cache freelists");
    if (s->quarantine_limit_bytes)
        row(f, '+', s->quarantine_bytes, "Bytes in quarantine");
    row(f, '+', s->metadata_bytes, "Bytes in malloc metadata");
    row(f, '+', s->arena.unallocated_bytes, "Bytes in malloc metadata Arena unallocated");
    row(f, '+', s->arena.unavailable_bytes, "Bytes in malloc metadata Arena unavailable");
    sa_fmt_add(f, "MALLOC:   ------------\n");
    row(f, '=', actual, "Actual memory used (physical + swap)");
    row(f, '+', s->released_bytes, "Bytes released to OS (aka unmapped)");
    sa_fmt_add(f, "MALLOC:   ------------\n");
    row(f, '=', actual + s->released_bytes, "Virtual address space used");
}

void sa_report_metadata(struct sa_fmt *f, const struct sa_snapshot *s)
{
    size_t stacks_created = s->stacks.stacks + s->stacks.evicted;

    count(f, s->heap.spans_in_use, "Spans in use");
    count_bytes(f, s->heap.spans_created, s->heap.spans_created * sizeof(struct sa_span),
                "Spans created");
    count(f, s->threads_in_use, "Thread heaps in use");
    count_bytes(f, s->threads_created, s->experiment[SA_EXPERIMENT_PER_CPU] ? 0 : s->slab_bytes,
                "Thread heaps created");
    count(f, s->live.samples + s->live.kept, "Stack traces in use");
    count_bytes(f, s->live.records, s->live.records * sizeof(struct sa_sample),
                "Stack traces created");
    count(f, s->stacks.stacks, "Table buckets in use");
    count_bytes(f, stacks_created, s->stacks.bytes, "Table buckets created");
    count_bytes(f, s->pagemap_bytes, s->pagemap_bytes, "Pagemap bytes used");
    count_bytes(f, s->pagemap_root_resident_bytes, s->pagemap_root_resident_bytes,
                "Pagemap root resident bytes");
    count_bytes(f, s->slab_bytes, s->slab_bytes, "per-CPU slab bytes used");
}

void sa_report_peak(struct sa_fmt *f, const struct sa_snapshot *s)
{
    count_bytes(f, s->peak.used_bytes, s->peak.used_bytes, "Actual memory used at peak");
    count_bytes(f, s->peak.estimate_bytes, s->peak.estimate_bytes, "Estimated in-use at peak");
    sa_fmt_add(f, "MALLOC:   %12.4F               Realized fragmentation (%%)\n",
               sa_snapshot_fragmentation(s) * 100);
}

void sa_report_page_sizes(struct sa_fmt *f)
{
    count(f, SA_PAGE_BYTES, "Tcmalloc page size");
    count(f, SA_REPORT_HUGEPAGE_BYTES, "Tcmalloc hugepage size");
    count(f, sa_vm.page_bytes, "Kernel page size");
}

void sa_report_experiments(struct sa_fmt *f, const struct sa_snapshot *s)
{
    sa_fmt_add(f, "MALLOC EXPERIMENTS:");
    for (unsigned i = 0; i < SA_EXPERIMENTS; i++)
        sa_fmt_add(f, " %s=%zu", sa_experiment_names[i], s->experiment[i]);
    sa_fmt_add(f, "\n");
}

void sa_report_sampled_profiles(struct sa_fmt *f, const struct sa_snapshot *s)
{
    sa_fmt_add(f,
               "MALLOC SAMPLED PROFILES: %zu bytes (current), %zu bytes (internal fragmentation), "
               "%zu bytes (peak), %llu count (total)\n",
               (size_t)s->live.bytes, (size_t)s->live.slack_bytes, (size_t)s->live.peak_bytes,
               s->sampler.taken);
}

void sa_report_caches(struct sa_fmt *f, const struct sa_snapshot *s)
{
    if (s->experiment[SA_EXPERIMENT_PER_CPU])
        sa_fmt_add(f, "MALLOC: caches are per CPU (rseq); %llu restarts, %llu fences\n",
                   s->restarts, s->fences);
    else
        sa_fmt_add(f, "MALLOC: caches are per thread: %s\n",
                   sa_rseq.reason ? sa_rseq.reason : "not started");
    sa_fmt_add(f, "MALLOC: %zu transfer cache domain(s)\n", s->domains);
    sa_fmt_add(f,
               "MALLOC: %llu allocations of %llu bytes, %llu frees of %llu bytes since the start\n",
               s->ever.allocations, s->ever.allocations_bytes, s->ever.frees, s->ever.frees_bytes);
    sa_fmt_add(f,
               "MALLOC: %llu mappings failed, %llu releases refused, %llu blocks grown in place\n",
               s->map_failures, s->advise_failures, s->heap.extended);
}

void sa_report_sampling(struct sa_fmt *f, const struct sa_snapshot *s)
{
    sa_fmt_add(f, "MALLOC: sampling interval %zu bytes; %llu samples taken, %llu lost\n",
               s->sampling_interval, s->sampler.taken, s->sampler.failed);
    sa_fmt_add(f, "MALLOC: %zu samples live, for %zu bytes; %zu objects in %zu bytes of pages\n",
               s->live.samples, (size_t)s->live.bytes, s->sampled_objects, s->sampled_bytes);
    sa_fmt_add(f,
               "MALLOC: %zu call stacks in %zu of at most %zu bytes; %llu dropped, %llu evicted\n",
               s->stacks.stacks, s->stacks.bytes, s->stacks.limit_bytes, s->stacks.dropped,
               s->stacks.evicted);
    if (s->rates.optimised)
        sa_fmt_add(f, "MALLOC: sampling rates chosen %llu times; variance reduced %.2F times\n",
                   s->rates.chosen, s->rates.variance);
}

void sa_report_process(struct sa_fmt *f, const struct sa_snapshot *s)
{
    sa_fmt_add(f, "Total process stats (inclusive of non-malloc sources):\n");
    sa_fmt_add(f, "TOTAL: %12zu (%7m MiB) Bytes resident (physical memory used)\n",
               s->resident_bytes, s->resident_bytes);
    sa_fmt_add(f, "TOTAL: %12zu (%7m MiB) Bytes mapped (virtual memory used)\n", s->mapped_bytes,
               s->mapped_bytes);
}
