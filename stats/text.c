/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stats page as text. The lines of metrics.def make the page, in their order; tables with a row
 * for each class, CPU or length are in text_tables.c and text_heap.c. No state, no lock.
 */
#include "stats/text.h"

#include "alloc/os/rseq.h"
#include "pagemap/span.h"
#include "stats/metrics.h"
#include "stats/report.h"
#include "stats/text_internal.h"

/* One row of the summary. */
static void row(struct sa_fmt *f, char sign, size_t bytes, const char *text)
{
    sa_fmt_add(f, "MALLOC: %c %12zu (%7m MiB) %s\n", sign, bytes, bytes, text);
}

static void count(struct sa_fmt *f, size_t n, const char *text)
{
    sa_fmt_add(f, "MALLOC:   %12zu               %s\n", n, text);
}

static void count_bytes(struct sa_fmt *f, size_t n, size_t bytes, const char *text)
{
    sa_fmt_add(f, "MALLOC:   %12zu (%7m MiB) %s\n", n, bytes, text);
}

/* SA_TABLE pastes sa_text_ before the names of these functions, too. */
static void sa_text_experiments(struct sa_fmt *f, const struct sa_snapshot *s)
{
    sa_fmt_add(f, "MALLOC EXPERIMENTS:");
    for (unsigned i = 0; i < SA_EXPERIMENTS; i++)
        sa_fmt_add(f, " %s=%zu", sa_experiment_names[i], s->experiment[i]);
    sa_fmt_add(f, "\n");
}

static void sa_text_fragmentation(struct sa_fmt *f, const struct sa_snapshot *s, size_t bytes)
{
    size_t mixed = s->mixed.bytes - s->mixed.used_bytes;

    sa_fmt_add(f, "MALLOC: %zu bytes would go back if blocks lay as densely as possible", bytes);
    if (mixed)
        sa_fmt_add(f, "; %zu of mixed spans", mixed);
    for (unsigned i = 0; i < SA_FRAGMENTED_MAX && s->fragmented[i].bytes; i++)
        sa_fmt_add(f, "%s %zu bytes: %zu", i ? "," : "; most among blocks of",
                   s->fragmented[i].size, s->fragmented[i].bytes);
    sa_fmt_add(f, "\n");
}

static void sa_text_options(struct sa_fmt *f)
{
    if (sa_report_options)
        sa_report_options(f, false);
}

void sa_text_format(struct sa_fmt *f, const struct sa_report_input *r)
{
    static const char watched[][16] = {"not watched", "read", "by a trigger"};
    const struct sa_snapshot *s;
    union sa_metric_values metrics, *m = &metrics;
    bool per_cpu;

    if (!r) {
        sa_fmt_add(f, "salloc: no memory for a stats page\n");
        return;
    }
    s = &r->s;
    per_cpu = s->experiment[SA_EXPERIMENT_PER_CPU];
    sa_metrics_read(s, m);
#define SA_LINE(...) sa_fmt_add(f, __VA_ARGS__);
#define SA_LINE_IF(condition, ...)                                                                 \
    if (condition)                                                                                 \
        sa_fmt_add(f, __VA_ARGS__);
#define SA_ROW(...) row(f, __VA_ARGS__);
#define SA_ROW_IF(condition, ...)                                                                  \
    if (condition)                                                                                 \
        row(f, __VA_ARGS__);
#define SA_COUNT(...)       count(f, __VA_ARGS__);
#define SA_COUNT_BYTES(...) count_bytes(f, __VA_ARGS__);
#define SA_TABLE(name, ...) sa_text_##name(f, ##__VA_ARGS__);
#include "stats/metrics.def"
}
