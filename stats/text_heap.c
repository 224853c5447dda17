/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of the stats page with a row for each length of spans, for either page heap; see
 * text_internal.h. */
#include "stats/text_internal.h"

/* The row of a length: row n is for runs of n pages, row 0 for the longest. */
static size_t row_of(size_t length)
{
    return length % SA_AGE_LENGTHS;
}

void sa_text_lengths(struct sa_fmt *f, const char *label, const struct sa_span_ages *ages)
{
    size_t sizes = 0, backed = 0, released = 0, all_cum = 0, released_cum = 0;

    for (size_t i = 0; i < SA_AGE_LENGTHS; i++) {
        sizes += ages->backed[i].spans || ages->released[i].spans;
        backed += ages->backed[i].pages;
        released += ages->released[i].pages;
    }
    sa_fmt_add(f, SA_RULE "%s: %zu sizes; %6m MiB free; %6m MiB unmapped\n" SA_RULE, label, sizes,
               backed << SA_PAGE_SHIFT, released << SA_PAGE_SHIFT);
    for (size_t length = 1; length <= SA_AGE_LENGTHS; length++) {
        const struct sa_age_row *b = &ages->backed[row_of(length)];
        const struct sa_age_row *r = &ages->released[row_of(length)];
        size_t all;

        if (!b->spans && !r->spans)
            continue;
        all = b->pages + r->pages;
        all_cum += all;
        released_cum += r->pages;
        sa_fmt_add(f, length == SA_AGE_LENGTHS ? ">=%-5zu large" : "%6zu pages", length);
        sa_fmt_add(f, " * %6zu spans ~ %6m MiB; %6m MiB cum; unmapped: %6m MiB; %6m MiB cum\n",
                   b->spans + r->spans, all << SA_PAGE_SHIFT, all_cum << SA_PAGE_SHIFT,
                   r->pages << SA_PAGE_SHIFT, released_cum << SA_PAGE_SHIFT);
    }
}

static void age_columns(struct sa_fmt *f, const struct sa_age_row *row)
{
    sa_fmt_add(f, " %7.1F", row->pages ? row->idle_s / (double)row->pages : 0.0);
    for (unsigned i = 0; i < SA_AGES; i++)
        sa_fmt_add(f, " %7zu", row->pages_of_age[i]);
    sa_fmt_add(f, "\n");
}

static void age_rows(struct sa_fmt *f, const char *kind, const struct sa_age_row *rows)
{
    struct sa_age_row total = {0};

    for (size_t i = 0; i < SA_AGE_LENGTHS; i++) {
        total.pages += rows[i].pages;
        total.idle_s += rows[i].idle_s;
        for (unsigned age = 0; age < SA_AGES; age++)
            total.pages_of_age[age] += rows[i].pages_of_age[age];
    }
    sa_fmt_add(f, "%-13s TOTAL PAGES:", kind);
    age_columns(f, &total);
    for (size_t length = 1; length <= SA_AGE_LENGTHS; length++) {
        const struct sa_age_row *row = &rows[row_of(length)];

        if (!row->spans)
            continue;
        if (length == SA_AGE_LENGTHS)
            sa_fmt_add(f, "%s,   >=%zu pages:", kind, length);
        else
            sa_fmt_add(f, "%s, %8zu pages:", kind, length);
        age_columns(f, row);
    }
}

void sa_text_ages(struct sa_fmt *f, const char *label, const struct sa_span_ages *ages)
{
    sa_fmt_add(f,
               SA_RULE "%s cache entry age (count of pages in spans of a given size that have been "
                       "idle for up to the given period of time)\n" SA_RULE,
               label);
    sa_fmt_add(f, "%34s %7s %7s %7s %7s %7s %7s %7s\n", "mean", "<1s", "1s", "30s", "1m", "30m",
               "1h", "8+h");
    age_rows(f, "Live span", ages->backed);
    age_rows(f, "Unmapped span", ages->released);
}

void sa_text_sizes(struct sa_fmt *f, const char *label, const struct sa_size_info *sizes,
                   double seconds)
{
    sa_fmt_add(f, "%s: per-size information:\n", label);
    for (unsigned i = 0; i < SA_SIZE_BUCKETS; i++) {
        const struct sa_size_count *c = &sizes->count[i];
        struct sa_size_pages pages = sa_size_info_pages(sizes, i);
        double per_s = seconds > 0 ? 1 / seconds : 0;
        size_t min = sa_size_info_min(i);

        if (!c->allocs)
            continue;
        if (i < SA_SIZE_EXACT)
            sa_fmt_add(f, "%s: %21zu page info:", label, min);
        else
            sa_fmt_add(f, "%s: [ %7zu , %7zu ] page info:", label, min, sa_size_info_max(i));
        sa_fmt_add(f, " %10llu / %10llu a/f, %8llu (%6m MiB) live, %8.3F allocs/s (%6.1F MiB/s)\n",
                   c->allocs, c->frees, c->allocs - c->frees,
                   (size_t)(pages.allocated - pages.freed) << SA_PAGE_SHIFT,
                   (double)c->allocs * per_s,
                   (double)pages.allocated * (SA_PAGE_BYTES / 1048576.0) * per_s);
    }
}
