/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of records that are not in use; see records.h. */
#include "tool/heap/records.h"

#define RECORDS_MAX (1u << 24) /* of a list */

/* A list, from the pointer to its first record on. It may be changing where a thread was stopped:
 * then what is behind that place is not seen. */
static bool read_list(struct sa_heap *h, uint64_t first, struct sa_field next)
{
    uint64_t record;

    if (!sa_pages_read(h->pages, first, &record, sizeof(record)))
        return true;
    for (unsigned i = 0; record && i < RECORDS_MAX; i++)
        if (!sa_page_set_add(&h->records, record))
            return false;
        else if (!sa_pages_read(h->pages, record + next.offset, &record, sizeof(record)))
            break;
    return true;
}

/* The spans of a page heap. */
static bool read_spans(struct sa_heap *h, const struct sa_table *table, const char *variable,
                       const char *kind, const char *record, const char *list, struct sa_error *e)
{
    uint64_t instance = sa_table_variable(table, variable, e), heap;
    struct sa_field which = sa_table_field(table, "struct sa_page_heap", kind, e);
    struct sa_field first = sa_table_field(table, record, list, e);
    struct sa_field next = sa_table_field(table, "struct sa_span", "next", e);

    return !e->code && (!sa_field_read(h->target, instance, which, &heap) ||
                        read_list(h, heap + first.offset, next));
}

bool sa_records_read(struct sa_heap *h, const struct sa_table *table, struct sa_error *e)
{
    uint64_t live = sa_table_variable(table, "live_samples", e);
    uint64_t records = sa_table_variable(table, "sample_records", e);
    struct sa_field gone = sa_table_field(table, "struct live_samples", "gone", e);
    struct sa_field unused = sa_table_field(table, "struct sample_records", "unused", e);
    struct sa_field next = sa_table_field(table, "struct sa_sample", "next", e);

    if (!e->code &&
        (!read_list(h, live + gone.offset, next) || !read_list(h, records + unused.offset, next) ||
         !read_spans(h, table, "sa_page_heap_ordinary", "huge", "struct sa_huge_heap",
                     "unused_spans", e) ||
         !read_spans(h, table, "sa_page_heap_sampled", "plain", "struct sa_span_heap", "unused",
                     e)))
        sa_error_set(e, SA_EXIT_FAILED, "there is no memory for the records of the heap");
    return !e->code;
}
