/* SPDX-License-Identifier: Apache-2.0 */
/* The sections of the stats page with a line for each size class; see report_internal.h. */
#include "stats/report_internal.h"

void sa_report_class_name(struct sa_fmt *f, unsigned cls, size_t size)
{
    sa_fmt_add(f, "class %3u [ %8zu bytes ] : ", cls, size);
}

void sa_report_classes(struct sa_fmt *f, const struct sa_snapshot *s)
{
    size_t cumulative = 0;

    sa_fmt_add(f, SA_REPORT_RULE
               "Total size of freelists for per-thread and per-CPU caches,\n"
               "transfer cache, and central cache, as well as number of\n"
               "live pages, returned/requested spans by size-class\n" SA_REPORT_RULE);
    for (unsigned cls = 1; cls < s->classes; cls++) {
        const struct sa_snapshot_class *c = &s->cls[cls];
        size_t bytes = c->free_objects * c->size;

        cumulative += bytes;
        sa_report_class_name(f, cls, c->size);
        sa_fmt_add(
            f,
            "%8zu objs; %5m MiB; %6m cum MiB; %8zu live pages; spans: %10llu ret / %10llu "
            "req = %5.4F;\n",
            c->free_objects, bytes, cumulative, c->pages, c->spans_returned, c->spans_requested,
            c->spans_requested ? (double)c->spans_returned / (double)c->spans_requested : 0.0);
    }
}

void sa_report_utilization(struct sa_fmt *f, const struct sa_report_input *r)
{
    sa_fmt_add(f, SA_REPORT_RULE
               "Central cache freelist: Span utilization histogram\n"
               "Non-cumulative number of spans with allocated objects < N\n" SA_REPORT_RULE);
    for (unsigned cls = 1; cls < r->s.classes; cls++) {
        const size_t *spans = r->cls[cls].central.utilization;

        sa_report_class_name(f, cls, r->s.cls[cls].size);
        for (unsigned i = 0; i < SA_CENTRAL_BUCKETS; i++)
            sa_fmt_add(f, "%s%6zu < %u", i ? "," : "", spans[i], 1u << i);
        sa_fmt_add(f, "\n");
    }
}

void sa_report_transfer(struct sa_fmt *f, const struct sa_report_input *r)
{
    size_t cumulative = 0;

    sa_fmt_add(f, SA_REPORT_RULE
               "Used bytes, current capacity, and maximum allowed capacity\n"
               "of the transfer cache freelists.\n"
               "It also reports insert/remove hits/misses by size class.\n" SA_REPORT_RULE);
    for (unsigned cls = 1; cls < r->s.classes; cls++) {
        const struct sa_transfer_stats *t = &r->cls[cls].transfer;
        size_t bytes = t->objects * r->s.cls[cls].size;

        cumulative += bytes;
        sa_report_class_name(f, cls, r->s.cls[cls].size);
        sa_fmt_add(f,
                   "%8zu objs; %5m MiB; %6m cum MiB; %5zu capacity; %5zu max_capacity; %8llu "
                   "insert hits; %8llu insert misses (%8llu partial); %8llu remove hits; %8llu "
                   "remove misses (%8llu partial);\n",
                   t->objects, bytes, cumulative, t->capacity, t->max_capacity, t->insert_hits,
                   t->insert_misses, t->insert_partial, t->remove_hits, t->remove_misses,
                   t->remove_partial);
    }
}

void sa_report_capacities(struct sa_fmt *f, const struct sa_report_input *r)
{
    sa_fmt_add(f,
               SA_REPORT_RULE "Size class capacity statistics in per-cpu caches\n" SA_REPORT_RULE);
    for (unsigned cls = 1; cls < r->s.classes; cls++) {
        const struct sa_cpu_class_stats *c = &r->cls[cls].cpu;

        sa_report_class_name(f, cls, r->s.cls[cls].size);
        sa_fmt_add(f,
                   "%6zu (minimum), %7.1F (average), %6zu (maximum), %6zu maximum allowed "
                   "capacity\n",
                   c->least, c->average, c->most, c->allowed);
    }
}
