/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The radix map: page number -> size class, and page number -> span.
 *
 * Two trees over the same 35-bit page number, shaped by who reads them:
 *   classes: 12 bits root, 23 bits leaf of one byte each. The leaf of the home window is part of
 *            sa_hot; others are mapped when first needed and touched as they fill.
 *            Beside it sa_hot.home_class has the classes with spans of one page again, as header
 *            offsets: free() gets from pointer to header with one load.
 *   spans:   12 bits root, 11 bits node, 12 bits leaf of pointers (a leaf spans 32 MiB).
 *
 * Readers take no lock. A node is published with a release store after it is zeroed, and is never
 * removed, so a reader sees null or a valid node. What an entry says is only meaningful to who
 * holds something on the page (an object, a span): the entry of a page changes only while nobody
 * does, and the allocator's own hand-over (cache, list or lock) orders the change before the next
 * reader. (Or the owner of the only object of a span changes it, which grows: whoever gets the
 * object from it gets the entries, too.) Readers with a pointer of unknown origin use
 * sa_pagemap_find, which verifies what it finds.
 *
 * Entries of the spans tree: every page of an OBJECTS span; first and last page of others. Entries
 * in between may be stale.
 */
#ifndef SA_PAGEMAP_PAGEMAP_H
#define SA_PAGEMAP_PAGEMAP_H

#include "alloc/base/atomic.h"
#include "alloc/base/page.h"
#include "alloc/hot/hot.h"
#include "pagemap/span.h"

#define SA_MAP_NODE_BITS 11
#define SA_MAP_LEAF_BITS 12
#define SA_MAP_ROOTS     (1u << (SA_ADDRESS_BITS - SA_HOME_SHIFT))

struct sa_map_leaf {
    struct sa_span *span[1u << SA_MAP_LEAF_BITS]; /* atomic, relaxed */
};

struct sa_map_node {
    struct sa_map_leaf *leaf[1u << SA_MAP_NODE_BITS]; /* atomic: release by grow, acquire */
};

/* The roots of both trees, side by side: most programs touch one page of them. */
struct sa_map_root {
    struct sa_map_node *node; /* atomic: release by grow, acquire by readers */
    uint8_t *classes;         /* the same; the home window's is in sa_hot */
};

struct sa_pagemap {
    /* Atomic, relaxed: nodes, leaves, and the part of class leaves that is in use. A class leaf is
     * mapped for a whole window and used as far as there are span leaves. */
    uint64_t bytes;
    struct sa_map_root root[SA_MAP_ROOTS];
};

extern struct sa_pagemap sa_pagemap;

/* Makes entries for [start, start + bytes) exist. False when out of memory. */
bool sa_pagemap_grow(uintptr_t start, size_t bytes);

/* Makes the tables of the home window read-only until there are spans. Does nothing but the first
 * time, before any grow. */
void sa_pagemap_close(void);

/* Makes all tables writable, when a filter of system calls is about to come: it may forbid what
 * opens them. Only tried: a child of vfork calls it, too. */
SA_COLD void sa_pagemap_open_all(void);

/* Makes the home window's leaf part of the map. Once, before any grow. */
void sa_pagemap_init(void);

SA_INLINE struct sa_span *sa_pagemap_span(uintptr_t address)
{
    size_t page = address >> SA_PAGE_SHIFT;
    struct sa_map_node *node;
    struct sa_map_leaf *leaf;

    if (address >> SA_ADDRESS_BITS)
        return NULL;
    node = sa_load_acquire(&sa_pagemap.root[address >> SA_HOME_SHIFT].node);
    if (!node)
        return NULL;
    leaf = sa_load_acquire(&node->leaf[page >> SA_MAP_LEAF_BITS & ((1u << SA_MAP_NODE_BITS) - 1)]);
    if (!leaf)
        return NULL;
    return sa_load_relaxed(&leaf->span[page & ((1u << SA_MAP_LEAF_BITS) - 1)]);
}

SA_INLINE unsigned sa_pagemap_class(uintptr_t address)
{
    uint8_t *classes;

    if (address >> SA_ADDRESS_BITS)
        return 0;
    classes = sa_load_acquire(&sa_pagemap.root[address >> SA_HOME_SHIFT].classes);
    if (!classes)
        return 0;
    return sa_load_relaxed(&classes[address >> SA_PAGE_SHIFT & (SA_HOME_PAGES - 1)]);
}

/* The span in use or free that contains the address, or NULL. Safe for any address. */
struct sa_span *sa_pagemap_find(uintptr_t address);

/* The same for any address in a large span in use, of which only the ends are known: it is looked
 * for from there down. Slow. */
struct sa_span *sa_pagemap_find_around(uintptr_t address);

/*
 * Of spans in use or free, the one that begins at *at or behind it, and *at becomes where to go on;
 * NULL: there is none. All that was read may have changed meanwhile.
 */
struct sa_span *sa_pagemap_next(uintptr_t *at);

/* Requires: entries exist. Sets the first and the last page's span. */
void sa_pagemap_set_ends(struct sa_span *span);

/* Requires: entries exist. Sets every page's span; the pages have no class. */
void sa_pagemap_set_pages(struct sa_span *span);

/* Requires: entries exist. Sets every page's span, and the class of every page that begins a
 * multiple of step bytes into the span to span->cls; the others have none. */
void sa_pagemap_set_objects(struct sa_span *span, size_t step);

/* Sets the class of every page of the span to 0. */
void sa_pagemap_clear_classes(struct sa_span *span);

#endif
