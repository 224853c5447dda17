/* SPDX-License-Identifier: Apache-2.0 */
/* The lines of the stats page about the hugepage-aware heap, from metrics_huge.def; see
 * text_internal.h. */
#include "stats/metrics.h"
#include "stats/text_internal.h"

#define REGION_MIB   1024
#define COLUMNS      6 /* of the histograms */
#define HUGEPAGE_MIB (SA_HUGE_BYTES >> 20)
#define FILLER       "HugePageFiller: "
#define CACHE        "HugeCache: "
#define PART(name)   "HugePageAware: " name " %8m MiB used, %6m MiB free, %6m MiB unmapped\n"

/* The percentage of correct decisions, of those that are old enough to tell; 100 if none is. */
/* Hugepages by bucket: the count of a bucket follows the least value of the bucket plus offset. */
static void histogram(struct sa_fmt *f, const char *kind, const char *of, const size_t *counts,
                      unsigned offset)
{
    sa_fmt_add(f, FILLER "# of %s hps with a<= %s <b\n", kind, of);
    for (unsigned i = 0; i < SA_HUGE_BUCKETS; i++)
        sa_fmt_add(f, "%s<%3u<=%6zu%s", i % COLUMNS ? " " : FILLER, sa_huge_bucket_min[i] + offset,
                   counts[i], i % COLUMNS == COLUMNS - 1 ? "\n" : "");
    sa_fmt_add(f, "\n");
}

/* Donated hugepages have one allocation, so one histogram describes them. */
static void sa_text_histograms(struct sa_fmt *f, const struct sa_huge_filler_stats *s)
{
    static const char *const kinds[] = {[SA_HUGE_REGULAR] = "regular",
                                        [SA_HUGE_DONATED] = "donated",
                                        [SA_HUGE_PARTIAL] = "partial",
                                        [SA_HUGE_RELEASED] = "released"};

    for (unsigned k = 0; k < SA_HUGE_KINDS; k++)
        histogram(f, kinds[k], "# of free pages", s->kind[k].free_pages, 0);
    for (unsigned k = 0; k < SA_HUGE_KINDS; k++)
        if (k != SA_HUGE_DONATED)
            histogram(f, kinds[k], "longest free range", s->kind[k].longest_free, 0);
    for (unsigned k = 0; k < SA_HUGE_KINDS; k++)
        if (k != SA_HUGE_DONATED)
            histogram(f, kinds[k], "# of allocations", s->kind[k].allocations, 1);
}

static void sa_text_moment(struct sa_fmt *f, const char *when, const struct sa_huge_moment *m)
{
    const size_t *n = m->hugepages;

    sa_fmt_add(f, FILLER "at peak %s: %zu pages (and %zu free, %zu unmapped)\n", when,
               m->used_pages, m->free_pages, m->unmapped_pages);
    sa_fmt_add(
        f, FILLER "at peak %s: %zu hps (%zu regular, %zu donated, %zu partial, %zu released)\n",
        when, n[SA_HUGE_REGULAR] + n[SA_HUGE_DONATED] + n[SA_HUGE_PARTIAL] + n[SA_HUGE_RELEASED],
        n[SA_HUGE_REGULAR], n[SA_HUGE_DONATED], n[SA_HUGE_PARTIAL], n[SA_HUGE_RELEASED]);
}

static void sa_text_range(struct sa_fmt *f, const char *what, const struct sa_huge_range *r)
{
    sa_fmt_add(f, CACHE "recent %s range: %zu min - %zu curr -  %zu max MiB\n", what,
               r->min * HUGEPAGE_MIB, r->now * HUGEPAGE_MIB, r->max * HUGEPAGE_MIB);
}

void sa_text_hugepages(struct sa_fmt *f, const struct sa_report_input *r)
{
    const struct sa_huge_stats *h = &r->huge;
    union sa_huge_metric_values metrics, *m = &metrics;
    double seconds = r->seconds;

    if (!r->has_huge)
        return;
    sa_huge_metrics_read(r, m);
#define SA_HUGE_LINE(...)        sa_fmt_add(f, __VA_ARGS__);
#define SA_HUGE_TABLE(name, ...) sa_text_##name(f, __VA_ARGS__);
#include "stats/metrics_huge.def"
}
