/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The radix map: page number -> size class, and page number -> span.
 *
 * Two trees over the same 35-bit page number:
 *   classes: 12 bits root, 23 bits leaf of one byte each. The leaf of the home window is part of
 *            sa_hot. Others are mapped when first needed and touched as they fill.
 *            sa_hot.home_class repeats the classes with spans of one page, as header offsets, so
 *            that free() gets from pointer to header with one load.
 *   spans:   12 bits root, 11 bits node, 12 bits leaf of pointers (a leaf covers 32 MiB).
 *
 * Readers take no lock. A node is zeroed, published with a release store, and never removed, so a
 * reader sees NULL or a valid node. An entry means something only to a thread that holds an object
 * or a span on the page. The entry changes only while no thread holds one, and the allocator's own
 * hand-over (cache, list or lock) orders the change before the next reader. There are two
 * exceptions. The owner of the only object of a span changes the entries when it grows the object;
 * the next owner gets them together with the object. And a span becomes mixed while threads own
 * objects on it (alloc/middle/mixed_spans.c says why they may see the old entries). Readers with a
 * pointer of unknown origin use sa_pagemap_find, which verifies what it finds.
 *
 * The spans tree has entries for every page of an OBJECTS span, and for the first and last page of
 * other spans. Entries in between may be stale.
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

/* The roots of both trees, side by side, so that most programs touch one page of them. */
struct sa_map_root {
    struct sa_map_node *node; /* atomic: release by grow, acquire by readers */
    uint8_t *classes;         /* atomic, as node; that of the home window lies in sa_hot */
};

struct sa_pagemap {
    /* Atomic, relaxed: nodes, leaves, and the part of class leaves that is in use. A class leaf is
     * mapped for a whole window and used as far as there are span leaves. */
    uint64_t bytes;
    struct sa_map_root root[SA_MAP_ROOTS];
};

extern struct sa_pagemap sa_pagemap;

/* Makes entries for [start, start + bytes) exist. False: out of memory, or beyond the address
 * space. Takes PAGEMAP. */
bool sa_pagemap_grow(uintptr_t start, size_t bytes);

/* Has the kernel back the entries for [start, start + bytes), as far as they exist. */
void sa_pagemap_touch(uintptr_t start, size_t bytes);

/* Makes those of this library's variables writable that the loader maps read-only, but for the
 * tables of the home window. Called before anything that writes to them; a second call does
 * nothing. */
void sa_pagemap_open_variables(void);

/* Makes the tables of the home window read-only until there are spans. Called before any grow; a
 * second call does nothing. */
void sa_pagemap_close(void);

/* Makes all tables writable, because a filter of system calls is about to be installed and may
 * forbid that later. Gives up if the lock is held for long: a child of vfork calls it, too. */
SA_COLD void sa_pagemap_open_all(void);

/* Makes the home window's leaf of classes part of the map. Called once, before any grow. */
void sa_pagemap_init(void);

/* Returns the entry of the address's page in the tree of spans, or NULL. The span need not contain
 * the address, see above. Safe for any address. */
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
    return sa_load_acquire(&leaf->span[page & ((1u << SA_MAP_LEAF_BITS) - 1)]);
}

/* Returns the size class of the address's page, or 0. Safe for any address. */
SA_INLINE unsigned sa_pagemap_class(uintptr_t address)
{
    uint8_t *classes;

    if (address >> SA_ADDRESS_BITS)
        return 0;
    classes = sa_load_acquire(&sa_pagemap.root[address >> SA_HOME_SHIFT].classes);
    if (!classes)
        return 0;
    return sa_load_acquire(&classes[address >> SA_PAGE_SHIFT & (SA_HOME_PAGES - 1)]);
}

/* The span, in use or free, that contains the address, or NULL. Safe for any address. */
struct sa_span *sa_pagemap_find(uintptr_t address);

/* As sa_pagemap_find, also for an address inside a large span in use, of which the map has only the
 * ends: examines page after page below the address. Slow. */
struct sa_span *sa_pagemap_find_around(uintptr_t address);

/* Returns the first span, in use or free, that begins at or after *at, and moves *at behind its
 * first page. NULL: there is none. The span may change before the caller reads it. */
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
