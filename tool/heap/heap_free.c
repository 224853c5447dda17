/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which objects of a target's heap are free: by the bitmaps of their spans, and because they lie in
 * the cache of a CPU or in a transfer cache. Where these lie is noted, too: they have pointers to
 * blocks that the program does not know any more. In hardened processes, blocks in quarantine
 * count as live.
 */
#include "tool/heap/heap.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SLABS_MAX   65536
#define CLASSES_MAX 256
#define SLOTS_MAX   (1u << 20) /* of a stack of free objects */
#define SLOTS       4096       /* of these, read at a time */
#define SHARDS_MAX  4096

struct caches {
    struct sa_heap *heap;
    const struct sa_table *table;
    struct sa_error *e;
    uint64_t classes;
    uint64_t slots[SLOTS];
};

static uint64_t constant(struct caches *c, const char *name)
{
    return sa_table_constant(c->table, name, c->e);
}

static struct sa_field field(struct caches *c, const char *record, const char *name)
{
    return sa_table_field(c->table, record, name, c->e);
}

/* Enters the objects of a stack. */
static bool read_stack(struct caches *c, uint64_t slots, uint64_t count)
{
    struct sa_heap *h = c->heap;

    if (!sa_page_set_add(&h->records, slots))
        return false;
    for (uint64_t n; count && count <= SLOTS_MAX; count -= n, slots += n * sizeof(*c->slots)) {
        n = count < SLOTS ? count : SLOTS;
        if (!sa_pages_read(h->pages, slots, c->slots, n * sizeof(*c->slots)))
            return true;
        for (uint64_t i = 0; i < n; i++) {
            struct sa_block block;

            /* Not of a mixed span, which counts as one block. */
            if (sa_heap_block(h, c->slots[i], &block) && sa_span_class(block.span) &&
                block.start == c->slots[i])
                sa_heap_set_bit(h->free, block.bit);
        }
    }
    return true;
}

static bool read_cpu(struct caches *c, uint64_t cache)
{
    uint64_t slab, state, slots, bytes = constant(c, "struct sa_header");
    uint64_t mask = constant(c, "SA_FILLED_MASK");
    struct sa_field slab_field = field(c, "struct cpu_cache", "slab");
    struct sa_field state_field = field(c, "struct sa_header", "state");
    struct sa_field slots_field = field(c, "struct sa_header", "slots");
    struct sa_target *t = c->heap->target;

    if (c->e->code || !sa_page_set_add(&c->heap->records, cache))
        return false;
    if (!sa_field_read(t, cache, slab_field, &slab))
        return true;
    for (uint64_t cls = 1; cls < c->classes; cls++)
        if (sa_field_read(t, slab + cls * bytes, state_field, &state) && (state & mask) &&
            sa_field_read(t, slab + cls * bytes, slots_field, &slots) &&
            !read_stack(c, slots, (state & mask) / sizeof(*c->slots)))
            return false;
    return true;
}

static bool read_cpus(struct caches *c)
{
    uint64_t count = constant(c, "SA_SLABS");
    uint64_t table = sa_table_variable(c->table, "sa_cpu_caches", c->e), *caches;
    bool fine = !c->e->code && count <= SLABS_MAX;

    caches = fine ? calloc(count + 1, sizeof(*caches)) : NULL;
    fine = caches && sa_target_read(c->heap->target, table, caches, count * sizeof(*caches));
    for (uint64_t i = 0; fine && i < count; i++)
        fine = !caches[i] || read_cpu(c, caches[i]);
    free(caches);
    return fine;
}

static bool read_shard(struct caches *c, uint64_t shard, const uint8_t *order)
{
    uint64_t bytes = constant(c, "struct sa_transfer"), used, slots;
    struct sa_field used_field = field(c, "struct sa_transfer", "used");
    struct sa_field slots_field = field(c, "struct sa_transfer", "slots");

    for (uint64_t place = 0; !c->e->code && place < c->classes; place++) {
        uint64_t stack = shard + place * bytes;

        if (order[place] && sa_field_read(c->heap->target, stack, slots_field, &slots) && slots &&
            sa_field_read(c->heap->target, stack, used_field, &used) && !read_stack(c, slots, used))
            return false;
    }
    return !c->e->code;
}

static bool read_transfer(struct caches *c)
{
    uint64_t first = sa_table_variable(c->table, "sa_transfer_first", c->e);
    uint64_t others = sa_table_variable(c->table, "sa_transfer_others", c->e) +
                      field(c, "struct sa_transfer_others", "at").offset;
    uint64_t order_at = sa_table_variable(c->table, "sa_first_use", c->e);
    uint64_t count = constant(c, "SA_SHARDS_MAX"), shards[SHARDS_MAX];
    uint8_t order[CLASSES_MAX];

    if (c->e->code || count < 1 || count > SHARDS_MAX ||
        !sa_target_read(c->heap->target, others, shards, count * sizeof(*shards)) ||
        !sa_target_read(c->heap->target, order_at, order, c->classes))
        return false;
    shards[0] = first;
    for (uint64_t i = 0; i < count; i++)
        if (shards[i] && !read_shard(c, shards[i], order))
            return false;
    return true;
}

/* The bitmap of a span: a bit for each object that is free. */
static bool read_span(struct caches *c, const struct sa_heap_span *s, struct sa_field bits,
                      struct sa_field more)
{
    struct sa_heap *h = c->heap;
    uint64_t words = (s->objects + 63) / 64, record = sa_heap_record(h, s);
    uint64_t at = record + bits.offset;

    if (!record)
        return true;
    if (words > 1) {
        if (!sa_pages_read(h->pages, record + more.offset, &at, sizeof(at)))
            return true;
        if (!sa_page_set_add(&h->records, at))
            return false;
    }
    if (words > SLOTS || !sa_pages_read(h->pages, at, c->slots, words * sizeof(*c->slots)))
        return true;
    for (uint64_t i = 0; i < s->objects; i++)
        if (c->slots[i / 64] >> i % 64 & 1)
            sa_heap_set_bit(h->free, s->bit + i);
    return true;
}

static bool read_spans(struct caches *c)
{
    struct sa_field bits = field(c, "struct sa_span", "bits");
    struct sa_field more = field(c, "struct sa_span", "more_bits");

    if (c->e->code)
        return false;
    for (size_t i = 0; i < c->heap->count; i++) {
        const struct sa_heap_span *s = &c->heap->spans[i];

        if (sa_span_class(s) && !read_span(c, s, bits, more))
            return false;
    }
    return true;
}

bool sa_heap_read_free(struct sa_heap *h, const struct sa_table *table, struct sa_error *e)
{
    struct caches c = {.heap = h, .table = table, .e = e};
    uint64_t classes = sa_table_variable(table, "sa_size_classes", e);
    struct sa_field count = field(&c, "struct sa_size_classes", "count");

    errno = 0;
    if (e->code || !sa_field_read(h->target, classes, count, &c.classes) ||
        c.classes > CLASSES_MAX || !read_spans(&c) || !read_cpus(&c) || !read_transfer(&c))
        sa_error_set(e, errno == ENOMEM ? SA_EXIT_FAILED : SA_EXIT_DAMAGED,
                     errno == ENOMEM ? "there is no memory for the caches of the heap"
                                     : "the caches of the heap cannot be read");
    return !e->code;
}
