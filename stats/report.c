/* SPDX-License-Identifier: Apache-2.0 */
/* The sections of the stats page, in the order of the malloc-stats document; see report.h. */
#include "stats/report.h"

#include "alloc/base/atomic.h"
#include "alloc/base/bits.h"
#include "alloc/front/cpu_cache.h"
#include "alloc/front/gate.h"
#include "alloc/front/sample_rates.h"
#include "alloc/middle/central.h"
#include "alloc/middle/transfer.h"
#include "alloc/os/percpu.h"
#include "alloc/os/rseq.h"
#include "alloc/os/vm.h"
#include "sampling/live.h"
#include "sampling/rates.h"
#include "sampling/sampler.h"
#include "stats/snapshot.h"

#include <errno.h>
#include <unistd.h>

#define RULE "------------------------------------------------\n"

static void report_row(struct sa_fmt *f, char sign, size_t bytes, const char *what)
{
    sa_fmt_add(f, "MALLOC: %c %12zu (%7m MiB) %s\n", sign, bytes, bytes, what);
}

static void report_summary(struct sa_fmt *f, const struct sa_snapshot *s)
{
    size_t arena_rest = s->arena.unallocated_bytes + s->arena.unavailable_bytes;
    size_t actual = s->heap.mapped_bytes - s->heap.released_bytes + s->metadata_bytes + arena_rest;

    sa_fmt_add(f, "See doc/stats.md of salloc for an explanation of this page\n" RULE);
    report_row(f, ' ', s->in_use_bytes, "Bytes in use by application");
    report_row(f, '+', s->heap.backed_bytes + s->heap.moving_bytes, "Bytes in page heap freelist");
    report_row(f, '+', s->central_bytes, "Bytes in central cache freelist");
    report_row(f, '+', s->cpu_bytes, "Bytes in per-CPU cache freelist");
    report_row(f, '+', s->transfer_bytes, "Bytes in transfer cache freelist");
    report_row(f, '+', s->thread_bytes, "Bytes in thread cache freelists");
    report_row(f, '+', s->metadata_bytes, "Bytes in malloc metadata");
    report_row(f, '+', s->arena.unallocated_bytes, "Bytes in malloc metadata Arena unallocated");
    report_row(f, '+', s->arena.unavailable_bytes, "Bytes in malloc metadata Arena unavailable");
    sa_fmt_add(f, "MALLOC:   ------------\n");
    report_row(f, '=', actual, "Actual memory used (physical + swap)");
    report_row(f, '+', s->heap.released_bytes, "Bytes released to OS (aka unmapped)");
    sa_fmt_add(f, "MALLOC:   ------------\n");
    report_row(f, '=', actual + s->heap.released_bytes, "Virtual address space used");
}

static void report_metadata(struct sa_fmt *f, const struct sa_snapshot *s)
{
    size_t created = s->heap.spans_created * sizeof(struct sa_span);

    sa_fmt_add(f, "MALLOC:   %12zu               Spans in use\n", s->heap.spans_in_use);
    sa_fmt_add(f, "MALLOC:   %12zu (%7m MiB) Spans created\n", s->heap.spans_created, created);
    sa_fmt_add(f, "MALLOC:   %12zu               Thread heaps in use\n", s->threads_in_use);
    sa_fmt_add(f, "MALLOC:   %12zu (%7m MiB) Thread heaps created\n", s->threads_created,
               sa_rseq.per_cpu ? (size_t)0 : s->slab_bytes);
    sa_fmt_add(f, "MALLOC:   %12zu (%7m MiB) Pagemap bytes used\n", s->pagemap_bytes,
               s->pagemap_bytes);
    sa_fmt_add(f, "MALLOC:   %12zu (%7m MiB) per-CPU slab bytes used\n", s->slab_bytes,
               s->slab_bytes);
    sa_fmt_add(f, "MALLOC:   %12zu               Tcmalloc page size\n", (size_t)SA_PAGE_BYTES);
    sa_fmt_add(f, "MALLOC:   %12zu               Kernel page size\n", sa_vm.page_bytes);
    if (sa_rseq.per_cpu)
        sa_fmt_add(f, "MALLOC: caches are per CPU (rseq); %llu restarts, %llu fences\n",
                   sa_load_relaxed(&sa_hot.aborts), sa_load_relaxed(&sa_rseq.fences));
    else
        sa_fmt_add(f, "MALLOC: caches are per thread: %s\n", sa_rseq.reason);
    sa_fmt_add(f, "MALLOC: %u transfer cache domain(s)\n", sa_transfer_domains());
    sa_fmt_add(f,
               "MALLOC: %llu mappings failed, %llu releases refused, %llu blocks grown in place\n",
               sa_load_relaxed(&sa_vm.map_failures), sa_load_relaxed(&sa_vm.advise_failures),
               s->heap.extended);
}

static void report_sampling(struct sa_fmt *f, const struct sa_snapshot *s)
{
    struct sa_sampler_stats sampler;
    struct sa_live_stats live = {0};
    struct sa_stack_stats stacks = {0};
    struct sa_sample_rates_stats rates;

    sa_sampler_stats(&sampler);
    sa_sample_rates_stats(&rates);
    if (sa_gate_enter()) {
        sa_live_stats(&live);
        sa_stack_stats(&stacks);
        sa_gate_leave();
    }
    sa_fmt_add(f, "MALLOC: sampling interval %zu bytes; %llu samples taken, %llu lost\n",
               (size_t)sa_rates_interval(), sampler.taken, sampler.failed);
    sa_fmt_add(f, "MALLOC: %zu samples live, for %zu bytes; %zu objects in %zu bytes of pages\n",
               live.samples, (size_t)live.bytes, s->sampled_objects, s->sampled_bytes);
    sa_fmt_add(f,
               "MALLOC: %zu call stacks in %zu of at most %zu bytes; %llu dropped, %llu evicted\n",
               stacks.stacks, stacks.bytes, stacks.limit_bytes, stacks.dropped, stacks.evicted);
    if (rates.optimised)
        sa_fmt_add(f, "MALLOC: sampling rates chosen %llu times; variance reduced %.2F times\n",
                   rates.chosen, rates.variance);
}

static void report_process(struct sa_fmt *f, const struct sa_snapshot *s)
{
    sa_fmt_add(f, "Total process stats (inclusive of non-malloc sources):\n");
    sa_fmt_add(f, "TOTAL: %12zu (%7m MiB) Bytes resident (physical memory used)\n",
               s->resident_bytes, s->resident_bytes);
    sa_fmt_add(f, "TOTAL: %12zu (%7m MiB) Bytes mapped (virtual memory used)\n", s->mapped_bytes,
               s->mapped_bytes);
}

static void report_class_name(struct sa_fmt *f, unsigned cls, size_t size)
{
    sa_fmt_add(f, "class %3u [ %8zu bytes ] : ", cls, size);
}

static void report_classes(struct sa_fmt *f, const struct sa_snapshot *s)
{
    size_t cumulative = 0;

    sa_fmt_add(f, RULE "Total size of freelists for per-thread and per-CPU caches,\n"
                       "transfer cache, and central cache, as well as number of\n"
                       "live pages, returned/requested spans by size-class\n" RULE);
    for (unsigned cls = 1; cls < s->classes; cls++) {
        const struct sa_snapshot_class *c = &s->cls[cls];
        size_t bytes = c->free_objects * c->size;

        cumulative += bytes;
        report_class_name(f, cls, c->size);
        sa_fmt_add(
            f,
            "%8zu objs; %5m MiB; %6m cum MiB; %8zu live pages; spans: %10llu ret / %10llu "
            "req = %5.4F;\n",
            c->free_objects, bytes, cumulative, c->pages, c->spans_returned, c->spans_requested,
            c->spans_requested ? (double)c->spans_returned / (double)c->spans_requested : 0.0);
    }
}

static void report_transfer(struct sa_fmt *f, const struct sa_snapshot *s)
{
    size_t cumulative = 0;

    sa_fmt_add(f, RULE "Used bytes, current capacity, and maximum allowed capacity\n"
                       "of the transfer cache freelists.\n"
                       "It also reports insert/remove hits/misses by size class.\n" RULE);
    for (unsigned cls = 1; cls < s->classes; cls++) {
        struct sa_transfer_stats t = {0};
        size_t bytes;

        if (sa_gate_enter()) {
            sa_transfer_stats(cls, &t);
            sa_gate_leave();
        }
        bytes = t.objects * s->cls[cls].size;
        cumulative += bytes;
        report_class_name(f, cls, s->cls[cls].size);
        sa_fmt_add(f,
                   "%8zu objs; %5m MiB; %6m cum MiB; %5zu capacity; %5zu max_capacity; %8llu "
                   "insert hits; %8llu insert misses (%8llu partial); %8llu remove hits; %8llu "
                   "remove misses (%8llu partial);\n",
                   t.objects, bytes, cumulative, t.capacity, t.max_capacity, t.insert_hits,
                   t.insert_misses, t.insert_partial, t.remove_hits, t.remove_misses,
                   t.remove_partial);
    }
}

static void report_cpus(struct sa_fmt *f)
{
    int count = sa_cpu_cache_count();

    sa_fmt_add(f, RULE "Bytes in per-CPU caches (per cpu limit: %zu bytes)\n" RULE,
               sa_cpu_cache_limit());
    for (int cpu = 0; cpu < count; cpu++) {
        struct sa_cpu_cache_stats c;

        sa_cpu_cache_stats(cpu, &c);
        if (c.populated)
            sa_fmt_add(f, "cpu %3d: %12zu bytes (%7m MiB) with %12zu bytes unallocated active\n",
                       cpu, c.used_bytes, c.used_bytes, c.unallocated_bytes);
    }
    sa_fmt_add(f, RULE "Number of per-CPU cache underflows, overflows and reclaims\n" RULE);
    for (int cpu = 0; cpu < count; cpu++) {
        struct sa_cpu_cache_stats c;

        sa_cpu_cache_stats(cpu, &c);
        if (c.populated)
            sa_fmt_add(f,
                       "cpu %3d: %12llu underflows,%12llu overflows, overflows / underflows: "
                       "%5.2F, %12llu reclaims\n",
                       cpu, c.underflows, c.overflows,
                       c.underflows ? (double)c.overflows / (double)c.underflows : 0.0, c.reclaims);
    }
}

void sa_report_format(struct sa_fmt *f)
{
    struct sa_snapshot s;

    sa_snapshot_take(&s);
    report_summary(f, &s);
    report_metadata(f, &s);
    report_sampling(f, &s);
    report_process(f, &s);
    report_classes(f, &s);
    report_transfer(f, &s);
    report_cpus(f);
}

size_t sa_report_size(void)
{
    return 65536 + (size_t)sa_cpu_cache_count() * 256;
}

int sa_report_write(int fd)
{
    size_t cap = sa_align_up(sa_report_size(), 65536), done = 0;
    char *buf = sa_vm_map(NULL, cap, "salloc report");
    struct sa_fmt f;
    int failed = 0;

    if (!buf) {
        errno = ENOMEM;
        return -1;
    }
    sa_fmt_init(&f, buf, cap);
    sa_report_format(&f);
    while (!failed && done < f.len) {
        ssize_t n = write(fd, buf + done, f.len - done);

        if (n < 0 && errno != EINTR)
            failed = errno;
        if (n > 0)
            done += (size_t)n;
    }
    sa_vm_unmap(buf, cap);
    errno = failed ? failed : errno;
    return failed ? -1 : 0;
}
