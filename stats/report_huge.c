/* SPDX-License-Identifier: Apache-2.0 */
/* The sections of the stats page about the hugepage-aware heap; see report_internal.h. */
#include "stats/report_internal.h"

#define REGION_MIB   1024
#define COLUMNS      6 /* of the histograms */
#define HUGEPAGE_MIB (SA_HUGE_BYTES >> 20)
#define FILLER       "HugePageFiller: "
#define CACHE        "HugeCache: "

static double out_of(uint64_t a, uint64_t b)
{
    return b ? (double)a / (double)b : 0.0;
}

static void part(struct sa_fmt *f, const char *name, const struct sa_huge_part *p)
{
    sa_fmt_add(f, "HugePageAware: %s %8m MiB used, %6m MiB free, %6m MiB unmapped\n", name,
               p->used_pages << SA_PAGE_SHIFT, p->free_pages << SA_PAGE_SHIFT,
               p->unmapped_pages << SA_PAGE_SHIFT);
}

static void components(struct sa_fmt *f, const struct sa_huge_stats *h)
{
    sa_fmt_add(f, SA_REPORT_RULE "Huge page aware allocator components:\n" SA_REPORT_RULE
                                 "HugePageAware: breakdown of free / unmapped / used space:\n");
    part(f, "filler", &h->part_filler);
    part(f, "region", &h->part_region);
    part(f, "cache ", &h->part_cache);
    part(f, "alloc ", &h->part_alloc);
}

static void filler(struct sa_fmt *f, const struct sa_huge_filler_stats *s)
{
    sa_fmt_add(f, FILLER "densely pack small requests into hugepages\n");
    sa_fmt_add(
        f, FILLER "%zu total, %zu full, %zu partial, %zu released (%zu partially), 0 quarantined\n",
        s->hugepages, s->full, s->partial, s->released, s->partly_released);
    sa_fmt_add(f, FILLER "%zu pages free in %zu hugepages, %.4F free\n", s->free_pages,
               s->hugepages, out_of(s->free_pages, s->hugepages * SA_HUGE_PAGES));
    sa_fmt_add(f, FILLER "among non-fulls, %.4F free\n",
               out_of(s->free_pages, (s->hugepages - s->full) * SA_HUGE_PAGES));
    sa_fmt_add(
        f, FILLER "%zu used pages in subreleased hugepages (%zu of them in partially released)\n",
        s->used_in_released, s->used_in_partly_released);
    sa_fmt_add(f, FILLER "%zu hugepages partially released, %.4F released\n", s->released,
               out_of(s->unmapped_in_released, s->released * SA_HUGE_PAGES));
    sa_fmt_add(f, FILLER "%.4F of used pages hugepageable\n",
               s->used_pages ? out_of(s->used_hugepageable, s->used_pages) : 1.0);
    sa_fmt_add(f, FILLER "Since startup, %llu pages subreleased, %llu hugepages broken\n",
               s->subreleased_pages, s->broken_hugepages);
}

/* How many hugepages are from one bucket's least value to below the next one's. */
static void histogram(struct sa_fmt *f, const char *kind, const char *of, const size_t *counts,
                      unsigned offset)
{
    sa_fmt_add(f, FILLER "# of %s hps with a<= %s <b\n", kind, of);
    for (unsigned i = 0; i < SA_HUGE_BUCKETS; i++)
        sa_fmt_add(f, "%s<%3u<=%6zu%s", i % COLUMNS ? " " : FILLER,
                   sa_huge_bucket_least[i] + offset, counts[i],
                   i % COLUMNS == COLUMNS - 1 ? "\n" : "");
    sa_fmt_add(f, "\n");
}

/* A donated hugepage has one allocation, so its free pages say all of it. */
static void histograms(struct sa_fmt *f, const struct sa_huge_filler_stats *s)
{
    static const char *const kinds[] = {[SA_HUGE_REGULAR] = "regular",
                                        [SA_HUGE_DONATED] = "donated",
                                        [SA_HUGE_PARTIAL] = "partial",
                                        [SA_HUGE_RELEASED] = "released"};

    sa_fmt_add(f, FILLER "fullness histograms\n\n");
    for (unsigned k = 0; k < SA_HUGE_KINDS; k++)
        histogram(f, kinds[k], "# of free pages", s->kind[k].free_pages, 0);
    for (unsigned k = 0; k < SA_HUGE_KINDS; k++)
        if (k != SA_HUGE_DONATED)
            histogram(f, kinds[k], "longest free range", s->kind[k].longest_free, 0);
    for (unsigned k = 0; k < SA_HUGE_KINDS; k++)
        if (k != SA_HUGE_DONATED)
            histogram(f, kinds[k], "# of allocations", s->kind[k].allocations, 1);
}

static void moment(struct sa_fmt *f, const char *when, const struct sa_huge_moment *m)
{
    const size_t *n = m->hugepages;

    sa_fmt_add(f, FILLER "at peak %s: %zu pages (and %zu free, %zu unmapped)\n", when,
               m->used_pages, m->free_pages, m->unmapped_pages);
    sa_fmt_add(
        f, FILLER "at peak %s: %zu hps (%zu regular, %zu donated, %zu partial, %zu released)\n",
        when, n[SA_HUGE_REGULAR] + n[SA_HUGE_DONATED] + n[SA_HUGE_PARTIAL] + n[SA_HUGE_RELEASED],
        n[SA_HUGE_REGULAR], n[SA_HUGE_DONATED], n[SA_HUGE_PARTIAL], n[SA_HUGE_RELEASED]);
}

/* Of decisions that are old enough to tell, how many were right, in percent. */
static double percent_correct(uint64_t correct, uint64_t made, uint64_t pending)
{
    return made > pending ? 100 * out_of(correct, made - pending) : 100.0;
}

static void time_series(struct sa_fmt *f, const struct sa_huge_filler_stats *s)
{
    sa_fmt_add(f, FILLER "time series over 5 min interval\n\n");
    sa_fmt_add(f, FILLER "realized fragmentation: %m MiB\n",
               s->min_free_backed_pages << SA_PAGE_SHIFT);
    sa_fmt_add(f, FILLER "minimum free pages: %zu (%zu backed)\n", s->min_free_pages,
               s->min_free_backed_pages);
    moment(f, "demand", &s->peak_demand);
    moment(f, "hps", &s->peak_hugepages);
    sa_fmt_add(
        f,
        "\n" FILLER
        "Since the start of the execution, %llu subreleases (%llu pages) were skipped due to "
        "either recent (%llus) peaks, or the sum of short-term (%llus) fluctuations and long-term "
        "(%llus) trends..\n",
        s->skipped, s->skipped_pages, s->skip_s[SA_SKIP_PEAK], s->skip_s[SA_SKIP_SHORT],
        s->skip_s[SA_SKIP_LONG]);
    sa_fmt_add(f,
               FILLER "%.4F%% of decisions confirmed correct, %llu pending (%.4F%% of pages, %llu "
                      "pending), as per "
                      "anticipated %llus realized fragmentation.\n",
               percent_correct(s->correct, s->skipped, s->pending), s->pending,
               percent_correct(s->correct_pages, s->skipped_pages, s->pending_pages),
               s->pending_pages, s->skip_check_s);
}

static void region(struct sa_fmt *f, const struct sa_huge_region_stats *s)
{
    sa_fmt_add(f, "HugeRegionSet: 1 MiB+ allocations best-fit into %d MiB slabs\n", REGION_MIB);
    sa_fmt_add(f, "HugeRegionSet: %zu total regions\n", s->regions);
    sa_fmt_add(f, "HugeRegionSet: %zu hugepages backed out of %zu total\n", s->backed_hugepages,
               s->hugepages);
    sa_fmt_add(f, "HugeRegionSet: %zu pages free in backed region, %.4F free\n", s->free_pages,
               out_of(s->free_pages, s->backed_hugepages * SA_HUGE_PAGES));
}

static void range(struct sa_fmt *f, const char *what, const struct sa_huge_range *r)
{
    sa_fmt_add(f, CACHE "recent %s range: %zu min - %zu curr -  %zu max MiB\n", what,
               r->min * HUGEPAGE_MIB, r->now * HUGEPAGE_MIB, r->max * HUGEPAGE_MIB);
}

static void cache(struct sa_fmt *f, const struct sa_huge_cache_stats *s)
{
    sa_fmt_add(f, CACHE "contains unused, backed hugepage(s)\n");
    sa_fmt_add(
        f, CACHE "%zu / %zu hugepages cached / cache limit (%.3F hit rate, %.3F overflow rate)\n",
        s->cached, s->limit, out_of(s->hits, s->hits + s->misses), out_of(s->overflows, s->stored));
    sa_fmt_add(f, CACHE "%llu MiB fast unbacked, %llu MiB periodic\n",
               s->fast_released * HUGEPAGE_MIB, s->periodic_released * HUGEPAGE_MIB);
    sa_fmt_add(f, CACHE "%llu MiB*s cached since startup\n", s->cached_mib_s);
    range(f, "usage", &s->usage);
    range(f, "offpeak", &s->off_peak);
    range(f, "cache", &s->size);
}

static void allocator(struct sa_fmt *f, const struct sa_huge_address_stats *s)
{
    sa_fmt_add(f, "HugeAllocator: contiguous, unbacked hugepage(s)\n");
    sa_fmt_add(f, "HugeAddressMap: treap %zu / %zu nodes used / created\n", s->nodes_used,
               s->nodes_created);
    sa_fmt_add(f, "HugeAddressMap: %zu contiguous hugepages available\n", s->longest);
    sa_fmt_add(f, "HugeAllocator: %zu requested - %zu in use = %zu hugepages free\n", s->requested,
               s->in_use, s->free);
}

void sa_report_huge(struct sa_fmt *f, const struct sa_report_input *r)
{
    static const char label[] = "HugePageAware";
    const struct sa_huge_stats *h = &r->huge;

    if (!r->has_huge)
        return;
    sa_report_lengths(f, label, &h->ages);
    components(f, h);
    sa_fmt_add(f, "\n");
    filler(f, &h->filler);
    sa_fmt_add(f, "\n");
    histograms(f, &h->filler);
    time_series(f, &h->filler);
    sa_fmt_add(f, "\n");
    region(f, &h->region);
    sa_fmt_add(f, "\n");
    cache(f, &h->cache);
    sa_fmt_add(f, "\n");
    allocator(f, &h->address);
    sa_fmt_add(f,
               "\nHugePageAware: %llu hugepages asked of the kernel, %llu made; %llu left, too "
               "little in memory\n",
               h->collapse.tried, h->collapse.made, h->collapse.sparse);
    sa_fmt_add(f,
               "HugePageAware: %zu hugepages advised, %zu kept out; advice not given %llu times\n",
               h->collapse.advised, h->collapse.kept_out, h->collapse.refused);
    sa_fmt_add(f,
               "HugePageAware: the kernel says %zu bytes resident, %zu of them on hugepages, "
               "%.4F\n\n",
               r->coverage.resident, r->coverage.huge,
               out_of(r->coverage.huge, r->coverage.resident));
    sa_report_allocation_sizes(f, label, &h->sizes);
    sa_report_size_info(f, label, &h->sizes, r->seconds);
    sa_report_ages(f, label, &h->ages);
}
