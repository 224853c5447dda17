/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The spans of a target's heap, by its radix map; see heap.h. Whatever the map says, a span is
 * taken only if its record leads back to the page, the target has memory there, and no other span
 * is there.
 */
#include "tool/heap/heap.h"

#include "tool/heap/records.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SPANS_FIRST 8192
#define SPANS_MAX   (1u << 26)
#define LEAVES_MAX  (1u << 16) /* 2 TiB of addresses */
#define PAGES_MAX   (1u << 28)
#define BLOCKS_MAX  (1ull << 34)
#define HOLED_MAX   (1ull << 30) /* bytes of a span with pages that cannot be read */
#define SIZE_MIN    8

/* As in the target. */
struct record {
    uint64_t start;
    uint32_t pages;
    uint8_t state, cls;
    uint16_t objects;
    uint64_t sample;
};

static const struct sa_own_field record_fields[] = {
    SA_OWN_FIELD(struct record, start),   SA_OWN_FIELD(struct record, pages),
    SA_OWN_FIELD(struct record, state),   SA_OWN_FIELD(struct record, cls),
    SA_OWN_FIELD(struct record, objects), SA_OWN_FIELD(struct record, sample),
};

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

/* What is needed of the table while the map is read. */
struct reader {
    struct sa_heap *heap;
    struct sa_plan record;
    uint64_t hot, hot_bytes; /* sa_hot, of which a leaf is a part */
    struct sa_field node, classes;
    unsigned node_bits, leaf_bits, roots;
    uint64_t objects, mixed, large, guarded; /* states of spans */
    uint64_t *entries;                       /* of a leaf */
    uint64_t *leaves;                        /* of a node */
};

static bool read_classes(struct reader *r, const struct sa_table *table, struct sa_error *e)
{
    uint64_t classes = sa_table_variable(table, "sa_size_classes", e), count;
    struct sa_field field = sa_table_field(table, "struct sa_size_classes", "count", e);
    struct sa_field of = sa_table_field(table, "struct sa_size_classes", "of", e);
    struct sa_field size = sa_table_field(table, "struct sa_class", "size", e);
    uint64_t bytes = sa_table_constant(table, "struct sa_class", e);

    if (e->code || !sa_field_read(r->heap->target, classes, field, &count) ||
        count > COUNT(r->heap->size_of))
        return false;
    for (uint64_t cls = 1; cls < count; cls++)
        if (!sa_field_read(r->heap->target, classes + of.offset + cls * bytes, size,
                           &r->heap->size_of[cls]))
            return false;
    return true;
}

static bool open_reader(struct reader *r, const struct sa_table *table, struct sa_error *e)
{
    struct sa_heap *h = r->heap;
    uint64_t address_bits = sa_table_constant(table, "SA_ADDRESS_BITS", e);

    h->page_shift = (unsigned)sa_table_constant(table, "SA_PAGE_SHIFT", e);
    h->root_shift = (unsigned)sa_table_constant(table, "SA_HOME_SHIFT", e);
    r->node_bits = (unsigned)sa_table_constant(table, "SA_MAP_NODE_BITS", e);
    r->leaf_bits = (unsigned)sa_table_constant(table, "SA_MAP_LEAF_BITS", e);
    h->leaf_shift = h->page_shift + r->leaf_bits;
    h->window_start = sa_table_constant(table, "SA_HOME_START", e);
    r->objects = sa_table_constant(table, "SA_SPAN_OBJECTS", e);
    r->mixed = sa_table_constant(table, "SA_SPAN_MIXED", e);
    r->large = sa_table_constant(table, "SA_SPAN_LARGE", e);
    r->guarded = sa_table_constant(table, "SA_SPAN_GUARDED", e);
    h->root = sa_table_variable(table, "sa_pagemap", e) +
              sa_table_field(table, "struct sa_pagemap", "root", e).offset;
    r->hot = sa_table_variable(table, "sa_hot", e);
    r->hot_bytes = sa_table_constant(table, "struct sa_hot", e);
    h->root_bytes = sa_table_constant(table, "struct sa_map_root", e);
    r->node = sa_table_field(table, "struct sa_map_root", "node", e);
    h->root_node = r->node.offset;
    r->classes = sa_table_field(table, "struct sa_map_root", "classes", e);
    if (!sa_plan_make(table, "struct sa_span", record_fields, COUNT(record_fields), &r->record, e))
        return false;
    h->record_start = sa_table_field(table, "struct sa_span", "start", e).offset;
    if (h->page_shift < 12 || h->page_shift > 20 || r->leaf_bits > 14 || r->node_bits > 14 ||
        h->root_shift != h->leaf_shift + r->node_bits || address_bits > 57 ||
        address_bits < h->root_shift || address_bits - h->root_shift > 12) {
        sa_error_set(e, SA_EXIT_VERSION, "the map of its heap is not what this sallocctl knows");
        return false;
    }
    r->roots = 1u << (address_bits - h->root_shift);
    h->window_end = h->window_start + (2ull << h->root_shift); /* and the window of samples */
    r->leaves = malloc(sizeof(*r->leaves) << r->node_bits);
    r->entries = malloc(sizeof(*r->entries) << r->leaf_bits);
    return r->leaves && r->entries;
}

/* Our own leaf for an address; NULL: no memory. */
static uint32_t *make_leaf(struct sa_heap *h, uint64_t address)
{
    uint32_t ***node = &h->leaves[address >> h->root_shift], **leaf;

    if (!*node)
        *node = calloc(1ul << (h->root_shift - h->leaf_shift), sizeof(**node));
    if (!*node)
        return NULL;
    leaf = &(*node)[address >> h->leaf_shift & ((1ul << (h->root_shift - h->leaf_shift)) - 1)];
    if (!*leaf)
        *leaf = calloc(1ul << (h->leaf_shift - h->page_shift), sizeof(**leaf));
    return *leaf;
}

/* The number of the span on a page, plus 1; 0: there is none. */
static uint32_t entry_of(const struct sa_heap *h, uint64_t address)
{
    uint32_t **node =
        address >> h->root_shift < SA_HEAP_ROOTS ? h->leaves[address >> h->root_shift] : NULL;
    uint32_t *leaf =
        node ? node[address >> h->leaf_shift & ((1ul << (h->root_shift - h->leaf_shift)) - 1)]
             : NULL;

    return leaf ? leaf[address >> h->page_shift & ((1ul << (h->leaf_shift - h->page_shift)) - 1)]
                : 0;
}

static uint64_t end_of(const struct sa_heap *h, const struct sa_heap_span *s)
{
    return sa_span_start(s) + ((uint64_t)s->pages << h->page_shift);
}

/* Enters a span into our own leaves. False: no memory. */
static bool enter(struct sa_heap *h, const struct sa_heap_span *s, uint32_t number)
{
    uint64_t mask = (1ul << (h->leaf_shift - h->page_shift)) - 1;

    for (uint64_t at = sa_span_start(s); at < end_of(h, s); at += 1ull << h->page_shift) {
        uint32_t *leaf = make_leaf(h, at);

        if (!leaf)
            return false;
        if (!leaf[at >> h->page_shift & mask])
            leaf[at >> h->page_shift & mask] = number;
    }
    return true;
}

/* Whether all of a range is mapped, or at least a part of it. */
static bool is_mapped(struct sa_heap *h, uint64_t start, uint64_t end, bool part)
{
    struct sa_area *area = &h->last;

    if (area->start <= start && end <= area->end)
        return true;
    for (size_t i = sa_target_area_behind(h->target, start, area); start < end; i++) {
        if (!h->target->kind->area(h->target, i, area) || area->start >= end)
            return false;
        if (part)
            return true;
        if (area->start > start)
            return false;
        start = area->end;
    }
    return true;
}

/* Whether a span can be taken, given that it begins at its page; sets what its blocks are. */
static bool is_sound(struct reader *r, const struct record *record, struct sa_heap_span *ret)
{
    uint64_t bytes = (uint64_t)record->pages << r->heap->page_shift, end = record->start + bytes;
    uint64_t size = r->heap->size_of[record->cls];

    *ret = (struct sa_heap_span){.place = record->start, .pages = record->pages};
    if (!bytes || record->start & SA_SPAN_BITS || end >> r->heap->root_shift >= r->roots ||
        entry_of(r->heap, record->start) || entry_of(r->heap, end - 1))
        return false;
    /* The blocks of a mixed span count as one: a pointer to one of them reaches all. */
    if (record->state != r->objects) /* parts of these may be inaccessible */
        return (record->state == r->large || record->state == r->guarded ||
                record->state == r->mixed) &&
               is_mapped(r->heap, record->start, end, bytes <= HOLED_MAX);
    ret->place |= record->cls;
    ret->objects = record->objects;
    return size >= SIZE_MIN && record->objects && record->objects <= bytes / size &&
           is_mapped(r->heap, record->start, end, false);
}

/* Room for a span more. The array is in a mapping of its own from the start, which grows without a
 * copy, by an eighth: memory may be short. */
static bool make_room(struct sa_heap *h)
{
    size_t cap = h->cap + h->cap / 8 + SPANS_FIRST;
    void *more;

    if (h->count < h->cap)
        return true;
    more = cap > SPANS_MAX ? NULL : realloc(h->spans, cap * sizeof(*h->spans));
    if (!more)
        return false;
    h->spans = more;
    h->cap = cap;
    return true;
}

/* Adds the span on a page, if it begins there. False: no memory, or too many. */
static bool add_span(struct reader *r, uint64_t address, uint64_t page)
{
    struct sa_heap *h = r->heap;
    struct record record = {0};
    char bytes[SA_PLAN_SPAN_MAX];
    struct sa_heap_span span;

    if (!sa_page_set_add(&h->records, address))
        return false;
    if (!sa_pages_read(h->pages, address, bytes, r->record.span))
        return true;
    sa_plan_apply(&r->record, bytes, &record);
    if (record.start != page || !is_sound(r, &record, &span))
        return true;
    if ((record.state == r->large || record.state == r->guarded) &&
        !sa_page_set_add(&h->records, record.sample))
        return false;
    if (!make_room(h))
        return false;
    span.bit = h->blocks;
    h->bytes += end_of(h, &span) - record.start;
    h->blocks += sa_span_blocks(&span);
    h->spans[h->count++] = span;
    h->low = h->low && h->low < record.start ? h->low : record.start;
    h->high = h->high > end_of(h, &span) ? h->high : end_of(h, &span);
    h->record_low = h->record_low && h->record_low < address ? h->record_low : address;
    h->record_high = h->record_high > address ? h->record_high : address;
    return h->blocks < BLOCKS_MAX && h->bytes >> h->page_shift < PAGES_MAX &&
           enter(h, &span, (uint32_t)h->count);
}

static bool read_leaf(struct reader *r, uint64_t leaf, uint64_t first)
{
    struct sa_heap *h = r->heap;
    size_t count = 1ul << r->leaf_bits;
    uint64_t before = 0;

    if (!sa_page_set_add(&h->records, leaf) ||
        !sa_page_set_add(&h->records, leaf + count * sizeof(*r->entries) - 1))
        return false;
    if (!sa_target_read(h->target, leaf, r->entries, count * sizeof(*r->entries)))
        return true;
    for (size_t i = 0; i < count; i++) {
        size_t taken = h->count;

        if (!r->entries[i] || r->entries[i] == before)
            continue;
        if (!add_span(r, r->entries[i], first + ((uint64_t)i << h->page_shift)))
            return false;
        before = h->count > taken ? r->entries[i] : 0;
    }
    return true;
}

static bool read_node(struct reader *r, uint64_t node, uint64_t first)
{
    struct sa_heap *h = r->heap;
    size_t count = 1ul << r->node_bits;

    if (!sa_page_set_add(&h->records, node))
        return false;
    if (!sa_target_read(h->target, node, r->leaves, count * sizeof(*r->leaves)))
        return true;
    for (size_t i = 0; i < count; i++)
        if (r->leaves[i] && (h->leaf_count++ == LEAVES_MAX ||
                             !read_leaf(r, r->leaves[i], first + ((uint64_t)i << h->leaf_shift))))
            return false;
    return true;
}

static bool read_map(struct reader *r)
{
    struct sa_heap *h = r->heap;

    for (unsigned i = 0; i < r->roots; i++) {
        uint64_t root = h->root + i * h->root_bytes, node, classes;

        if (!sa_field_read(h->target, root, r->node, &node) ||
            !sa_field_read(h->target, root, r->classes, &classes))
            return false;
        if (classes && classes - r->hot >= r->hot_bytes)
            h->table_bytes += 1ull << (h->root_shift - h->page_shift);
        if (node && !read_node(r, node, (uint64_t)i << h->root_shift))
            return false;
    }
    return true;
}

static void fail(struct sa_error *e, const char *damage)
{
    bool memory = errno == ENOMEM;

    sa_error_set(e, memory ? SA_EXIT_FAILED : SA_EXIT_DAMAGED, "%s",
                 memory ? "there is no memory for the map of the heap" : damage);
}

bool sa_heap_open(struct sa_heap *h, struct sa_pages *pages, const struct sa_table *table,
                  struct sa_error *e)
{
    struct reader r = {.heap = h};
    bool fine;

    memset(h, 0, sizeof(*h));
    h->target = pages->target;
    h->pages = pages;
    errno = 0;
    fine = open_reader(&r, table, e) && read_classes(&r, table, e);
    if (!fine)
        fail(e, "the size classes of the heap cannot be read");
    else if (!read_map(&r))
        fail(e, "the map of the heap cannot be read, or is too large");
    free(r.leaves);
    free(r.entries);
    h->free = e->code ? NULL : calloc(h->blocks / 8 + 1, 1);
    if (!h->free)
        sa_error_set(e, SA_EXIT_FAILED, "there is no memory for the map of the heap");
    else
        (void)(sa_heap_read_free(h, table, e) && sa_records_read(h, table, e));
    sa_page_set_sort(&h->records);
    if (e->code)
        sa_heap_close(h);
    return !e->code;
}

void sa_heap_close(struct sa_heap *h)
{
    for (size_t i = 0; i < SA_HEAP_ROOTS; i++) {
        for (size_t n = 0; h->leaves[i] && n < 1ul << (h->root_shift - h->leaf_shift); n++)
            free(h->leaves[i][n]);
        free(h->leaves[i]);
    }
    free(h->spans);
    free(h->samples);
    free(h->free);
    sa_page_set_free(&h->records);
    memset(h, 0, sizeof(*h));
}

struct sa_heap_span *sa_heap_span(const struct sa_heap *h, uint64_t address)
{
    uint32_t entry = address < h->low || address >= h->high ? 0 : entry_of(h, address);

    return entry ? &h->spans[entry - 1] : NULL;
}

struct sa_block sa_heap_block_at(const struct sa_heap *h, struct sa_heap_span *s, uint64_t index)
{
    uint64_t size = h->size_of[sa_span_class(s)];
    const struct sa_heap_sample *sample = sa_span_sample(s) ? &h->samples[s->objects - 1] : NULL;

    if (sample)
        return (struct sa_block){sample->start, sample->bytes, s->bit, s};
    if (!sa_span_class(s))
        return (struct sa_block){sa_span_start(s), end_of(h, s) - sa_span_start(s), s->bit, s};
    return (struct sa_block){sa_span_start(s) + index * size, size, s->bit + index, s};
}

/* The block of a span at an address within it, free or not. False: there is none. */
static bool block_on_span(const struct sa_heap *h, struct sa_heap_span *s, uint64_t address,
                          struct sa_block *ret)
{
    uint64_t index;

    if (!s)
        return false;
    index = sa_span_class(s) ? (address - sa_span_start(s)) / h->size_of[sa_span_class(s)] : 0;
    if (index >= sa_span_blocks(s))
        return false;
    *ret = sa_heap_block_at(h, s, index);
    return address - ret->start < ret->bytes;
}

bool sa_heap_block(const struct sa_heap *h, uint64_t address, struct sa_block *ret)
{
    struct sa_heap_span *s = sa_heap_span(h, address);

    if (block_on_span(h, s, address, ret)) {
        if (!sa_heap_bit(h->free, ret->bit))
            return true;
        if (h->reached && sa_heap_bit(h->reached, ret->bit))
            return false;
    }
    /* A pointer to the end of a sampled block, behind which lies no other. */
    s = sa_heap_span(h, address - 1);
    return s && sa_span_sample(s) && block_on_span(h, s, address - 1, ret) &&
           !sa_heap_bit(h->free, ret->bit) && address == ret->start + ret->bytes;
}

uint64_t sa_heap_record(const struct sa_heap *h, const struct sa_heap_span *s)
{
    uint64_t at = sa_span_start(s), word = sizeof(word), entry = 0;
    uint64_t node = (at >> h->leaf_shift) & ((1ull << (h->root_shift - h->leaf_shift)) - 1);
    uint64_t page = (at >> h->page_shift) & ((1ull << (h->leaf_shift - h->page_shift)) - 1);

    return sa_pages_read(h->pages, h->root + (at >> h->root_shift) * h->root_bytes + h->root_node,
                         &entry, word) &&
                   sa_pages_read(h->pages, entry + node * word, &entry, word) &&
                   sa_pages_read(h->pages, entry + page * word, &entry, word)
               ? entry
               : 0;
}

bool sa_heap_block_of_record(const struct sa_heap *h, uint64_t record, struct sa_block *ret)
{
    struct sa_heap_span *s;
    uint64_t start;

    if (record < h->record_low || record > h->record_high || record % sizeof(start) ||
        !sa_pages_read(h->pages, record + h->record_start, &start, sizeof(start)))
        return false;
    s = sa_heap_span(h, start);
    if (!s || sa_span_blocks(s) != 1 || sa_heap_bit(h->free, s->bit) ||
        sa_heap_record(h, s) != record)
        return false;
    *ret = sa_heap_block_at(h, s, 0);
    return true;
}

bool sa_heap_make_samples(struct sa_heap *h, size_t count)
{
    h->samples = calloc(count + 1, sizeof(*h->samples));
    return h->samples != NULL;
}

bool sa_heap_set_sample(struct sa_heap *h, uint64_t address, uint64_t bytes, uint32_t number)
{
    struct sa_heap_span *s = sa_heap_span(h, address);

    if (!s || sa_span_blocks(s) != 1 || sa_span_sample(s) || bytes > end_of(h, s) - address)
        return false;
    h->samples[number] =
        (struct sa_heap_sample){address, bytes ? bytes : 1, (size_t)(s - h->spans)};
    s->place &= ~(uint64_t)SA_SPAN_CLASS;
    s->objects = number + 1;
    return true;
}
