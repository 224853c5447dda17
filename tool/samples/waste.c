/* SPDX-License-Identifier: Apache-2.0 */
/* Waste of samples; see waste.h. Whatever the target says is checked before it is used. */
#include "tool/samples/waste.h"

#include "alloc/base/size_class.h"

#include <string.h>

struct sample {
    uint64_t proxy;
    uint8_t lent;
};

static const struct sa_own_field sample_fields[] = {
    SA_OWN_FIELD(struct sample, proxy),
    SA_OWN_FIELD(struct sample, lent),
};

struct span {
    uint64_t start, bits;
    uint16_t objects, live;
};

static const struct sa_own_field span_fields[] = {
    SA_OWN_FIELD(struct span, start),
    SA_OWN_FIELD(struct span, bits),
    SA_OWN_FIELD(struct span, objects),
    SA_OWN_FIELD(struct span, live),
};

#define COUNT(array) ((unsigned)(sizeof(array) / sizeof(*(array))))

bool sa_waste_open(struct sa_waste *w, struct sa_target *t, const struct sa_table *table,
                   struct sa_error *e)
{
    uint64_t home = sa_table_constant(table, "SA_HOME_SHIFT", e);

    memset(w, 0, sizeof(*w));
    w->target = t;
    w->root = sa_table_variable(table, "sa_pagemap", e) +
              sa_table_field(table, "struct sa_pagemap", "root", e).offset;
    w->root_bytes = sa_table_constant(table, "struct sa_map_root", e);
    w->node = sa_table_field(table, "struct sa_map_root", "node", e).offset;
    w->page_shift = (unsigned)sa_table_constant(table, "SA_PAGE_SHIFT", e);
    w->leaf_bits = (unsigned)sa_table_constant(table, "SA_MAP_LEAF_BITS", e);
    w->node_bits = (unsigned)sa_table_constant(table, "SA_MAP_NODE_BITS", e);
    w->address_bits = (unsigned)sa_table_constant(table, "SA_ADDRESS_BITS", e);
    if (!sa_plan_make(table, "struct sa_sample", sample_fields, COUNT(sample_fields), &w->sample,
                      e) ||
        !sa_plan_make(table, "struct sa_span", span_fields, COUNT(span_fields), &w->span, e))
        return false;
    if (w->page_shift > 30 || w->leaf_bits > 20 || w->node_bits > 20 || w->address_bits > 57 ||
        home != w->page_shift + w->leaf_bits + w->node_bits || home >= w->address_bits)
        sa_error_set(e, SA_EXIT_VERSION, "the map of its heap is not what this sallocctl knows");
    return !e->code;
}

static uint64_t word_at(const struct sa_waste *w, uint64_t address)
{
    uint64_t word = 0;

    return sa_target_read(w->target, address, &word, sizeof(word)) ? word : 0;
}

/* The address of the record of the span at an address, by the radix map (pagemap/pagemap.h); 0:
 * none. */
static uint64_t span_of(const struct sa_waste *w, uint64_t address)
{
    uint64_t page = address >> w->page_shift, node, leaf;

    if (address >> w->address_bits)
        return 0;
    node = word_at(w, w->root + (page >> (w->leaf_bits + w->node_bits)) * w->root_bytes + w->node);
    if (!node)
        return 0;
    leaf = word_at(w, node + 8 * (page >> w->leaf_bits & ((1ull << w->node_bits) - 1)));
    return leaf ? word_at(w, leaf + 8 * (page & ((1ull << w->leaf_bits) - 1))) : 0;
}

/* Whether the proxy, which is lent, is free on its span at this moment. */
static bool is_free(const struct sample *sample, const struct span *span, unsigned cls)
{
    long index;

    if (cls >= sa_size_classes.count || sample->proxy < span->start)
        return false;
    index = sa_class_index(&sa_size_classes.of[cls], sample->proxy - span->start);
    return index >= 0 && index < 64 && (span->bits >> index & 1);
}

double sa_waste_of(const struct sa_waste *w, uint64_t sample, unsigned cls)
{
    struct sample s = {0, 0};
    struct span span = {0, 0, 0, 0};
    uint64_t address;
    unsigned used;

    if (!sa_plan_read(w->target, &w->sample, sample, &s) || !s.proxy)
        return 0;
    address = span_of(w, s.proxy);
    if (!address || !sa_plan_read(w->target, &w->span, address, &span))
        return 0;
    used = span.live;
    if (s.lent && is_free(&s, &span, cls))
        used++;
    used = used < span.objects ? used : span.objects;
    return span.objects > 1 && used ? (double)(span.objects - used) / used : 0;
}
