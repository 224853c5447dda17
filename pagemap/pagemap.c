/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the radix map, and looks up pointers of unknown origin; see pagemap.h for why readers need
 * no lock. PAGEMAP guards the addition of nodes. An entry belongs to the owner of its page. */
#include "pagemap/pagemap.h"

#include "alloc/base/bits.h"
#include "alloc/base/fatal.h"
#include "alloc/base/hardening.h"
#include "alloc/base/layout.h"
#include "alloc/os/cpu_relax.h"
#include "alloc/os/filter.h"
#include "alloc/os/lock.h"
#include "alloc/os/vm.h"
#include "pagemap/arena.h"

#include <string.h>

#define FAR_ENOUGH (1ul << 20) /* the most pages that sa_pagemap_find_around examines */

/*
 * The table of classes becomes writable for this many leaves at a time (a power of two): 128 MiB of
 * addresses, in two system calls. In a process that locks its memory, the kernel backs all that is
 * writable, but not the rest. A writable part is too short for a hugepage.
 */
#define OPEN_LEAVES 4ul

SA_LAYOUT_USED struct sa_pagemap sa_pagemap;

/* What reports show. */
SA_LAYOUT = {
    SA_LAYOUT_STATE("sa_pagemap", sa_pagemap, bytes),
};
SA_LAYOUT_ADDRESS(sa_pagemap);

static SA_START_DATA struct sa_lock pagemap_lock; /* PAGEMAP: held to add nodes */

/* Atomic; written under PAGEMAP, or by start-up. Not 0: no table is closed, and none will be. */
static uint8_t all_open;

/* The most attempts to get the lock, for a caller that must not wait. */
#define OPEN_TRIES 1000

/* No analysis: it does not follow `owns` around the loop. */
void sa_pagemap_open_all(void) SA_NO_THREAD_SAFETY_ANALYSIS
{
    bool ok, owns = false;

    if (sa_load_acquire(&all_open))
        return;
    for (int i = 0; !owns && i < OPEN_TRIES; i++, sa_cpu_relax())
        owns = sa_lock_try(&pagemap_lock, SA_RANK_PAGEMAP);
    if (!owns)
        return;
    ok = sa_vm_protect(sa_hot.home_class, sizeof(sa_hot.home_class) + sizeof(sa_hot.home_any_class),
                       true);
    for (size_t i = 0; i < SA_MAP_ROOTS; i++) {
        uint8_t *classes = sa_pagemap.root[i].classes;

        if (classes && classes != sa_hot.home_any_class)
            ok = sa_vm_protect(classes, SA_HOME_PAGES, true) && ok;
    }
    sa_store_release(&all_open, ok);
    sa_lock_release(&pagemap_lock, SA_RANK_PAGEMAP);
}

/* The variables that the loader maps read-only (alloc/cold.ld), up to the tables of the home
 * window. NULL, or without these tables: the linker has not read that script, or link-time
 * optimization has joined the sections of variables. */
extern char sa_closed_start[] SA_WEAK SA_HIDDEN;
extern char sa_closed_end[] SA_WEAK SA_HIDDEN;

/* Whether the loader has mapped the tables of the home window read-only. */
static bool is_mapped_closed(void)
{
    uintptr_t tables = (uintptr_t)sa_hot.home_class;

    return tables >= (uintptr_t)sa_closed_start && tables < (uintptr_t)sa_closed_end;
}

void sa_pagemap_open_variables(void)
{
    static SA_START_DATA bool opened;
    char *end = is_mapped_closed() ? (char *)sa_hot.home_class : sa_closed_end;
    size_t bytes = end > sa_closed_start ? (size_t)(end - sa_closed_start) : 0;

    /* Nothing was written there, so a fresh mapping in their place is as good. Where both are
     * refused, the loader could not have mapped writable variables either. */
    if (!opened && bytes && !sa_vm_protect(sa_closed_start, bytes, true) &&
        !sa_vm_open(sa_closed_start, bytes, "salloc:variables"))
        sa_fatal("no memory for the library's variables", sa_closed_start, "%zu bytes", bytes);
    opened = true;
}

void sa_pagemap_close(void)
{
    static SA_START_DATA bool closed;
    /* Both tables at once, because they are adjacent. */
    size_t bytes = sizeof(sa_hot.home_class) + sizeof(sa_hot.home_any_class);

    if (closed)
        return;
    closed = true;
    if (!sa_filtered())
        sa_vm_close(sa_hot.home_class, bytes, is_mapped_closed());
    else if (!is_mapped_closed() || sa_vm_protect(sa_hot.home_class, bytes, true))
        sa_store_release(&all_open, true);
}

void sa_pagemap_init(void)
{
    sa_store_release(&sa_pagemap.root[SA_HOME_START >> SA_HOME_SHIFT].classes,
                     sa_hot.home_any_class);
}

/*
 * Makes the classes of leaf n and of the leaves around it writable. Other threads may read them
 * meanwhile, and see zeros before and after. False: out of memory; then all that is writable reads
 * as zero.
 */
static bool pagemap_open_classes(const struct sa_map_node *node, uint8_t *classes, size_t n)
    SA_REQUIRES(SA_RANK_PAGEMAP)
{
    size_t leaves = sa_max(OPEN_LEAVES, sa_vm.page_bytes >> SA_MAP_LEAF_BITS);
    size_t first = sa_align_down(n, leaves), at = first << SA_MAP_LEAF_BITS;
    size_t bytes = leaves << SA_MAP_LEAF_BITS;

    if (sa_load_acquire(&all_open))
        return true;
    for (size_t i = first; i < first + leaves; i++)
        if (node->leaf[i])
            return true;
    return (classes != sa_hot.home_any_class ||
            sa_vm_open(&sa_hot.home_class[at], bytes * sizeof(*sa_hot.home_class), "salloc:map")) &&
           sa_vm_open(&classes[at], bytes, "salloc:map");
}

static bool pagemap_grow_leaf(uintptr_t address) SA_REQUIRES(SA_RANK_PAGEMAP)
{
    struct sa_map_root *root = &sa_pagemap.root[address >> SA_HOME_SHIFT];
    size_t n = address >> (SA_PAGE_SHIFT + SA_MAP_LEAF_BITS) & ((1u << SA_MAP_NODE_BITS) - 1);
    struct sa_map_node *node = root->node;

    if (!root->classes) {
        /* From the kernel and not from the arena: 8 MiB, of which a page is touched per 32 MiB. */
        uint8_t *classes = sa_vm_map_closed(SA_HOME_PAGES, "salloc:metadata");

        if (!classes)
            return false;
        sa_store_release(&root->classes, classes);
    }
    if (!node) {
        node = sa_arena_alloc(sizeof(*node), SA_CACHELINE);
        if (!node)
            return false;
        sa_add_relaxed(&sa_pagemap.bytes, sizeof(*node));
        sa_store_release(&root->node, node);
    }
    if (!node->leaf[n]) {
        struct sa_map_leaf *leaf;

        if (!pagemap_open_classes(node, root->classes, n))
            return false;
        leaf = sa_arena_alloc(sizeof(*leaf), 4096);
        if (!leaf)
            return false;
        sa_add_relaxed(&sa_pagemap.bytes, sizeof(*leaf));
        if (root->classes != sa_hot.home_any_class) {
            sa_add_relaxed(&sa_pagemap.bytes, 1u << SA_MAP_LEAF_BITS);
            sa_vm_use_reserved(1u << SA_MAP_LEAF_BITS);
        }
        sa_store_release(&node->leaf[n], leaf);
    }
    return true;
}

bool sa_pagemap_grow(uintptr_t start, size_t bytes)
{
    const uintptr_t step = SA_PAGE_BYTES << SA_MAP_LEAF_BITS;
    bool ok = true;

    SA_DCHECK(bytes > 0);
    if ((start + bytes - 1) >> SA_ADDRESS_BITS)
        return false;
    sa_lock_acquire(&pagemap_lock, SA_RANK_PAGEMAP);
    for (uintptr_t at = sa_align_down(start, step); ok && at < start + bytes; at += step)
        ok = pagemap_grow_leaf(at);
    sa_lock_release(&pagemap_lock, SA_RANK_PAGEMAP);
    return ok;
}

SA_RARE void sa_pagemap_touch(uintptr_t start, size_t bytes)
{
    const size_t pages = 1ul << SA_MAP_LEAF_BITS;
    const uintptr_t step = SA_PAGE_BYTES << SA_MAP_LEAF_BITS, end = start + bytes;

    for (uintptr_t at = sa_align_down(start, step); at < end; at += step) {
        struct sa_map_root *root = &sa_pagemap.root[at >> SA_HOME_SHIFT];
        struct sa_map_node *node = sa_load_acquire(&root->node);
        size_t page = at >> SA_PAGE_SHIFT & (SA_HOME_PAGES - 1);
        struct sa_map_leaf *leaf = node ? sa_load_acquire(&node->leaf[page / pages]) : NULL;

        if (!leaf)
            continue;
        sa_vm_populate(leaf, sizeof(*leaf));
        sa_vm_populate(&root->classes[page], pages);
        if (root->classes == sa_hot.home_any_class)
            sa_vm_populate(&sa_hot.home_class[page], pages * sizeof(*sa_hot.home_class));
    }
}

struct sa_span *sa_pagemap_find(uintptr_t address)
{
    struct sa_span *span = sa_pagemap_span(address);
    uintptr_t start;

    if (!span)
        return NULL;
    start = sa_load_relaxed(&span->start);
    if (address < start ||
        address >= start + ((uintptr_t)sa_load_relaxed(&span->pages) << SA_PAGE_SHIFT) ||
        sa_load_relaxed(&span->state) == SA_SPAN_UNUSED)
        return NULL;
    return span;
}

/* Returns the entries of the address's window, or NULL: no span lies there. */
static struct sa_map_node *pagemap_node(uintptr_t address)
{
    return address >> SA_ADDRESS_BITS
               ? NULL
               : sa_load_acquire(&sa_pagemap.root[address >> SA_HOME_SHIFT].node);
}

SA_RARE struct sa_span *sa_pagemap_find_around(uintptr_t address)
{
    const uintptr_t step = SA_PAGE_BYTES << SA_MAP_LEAF_BITS;
    struct sa_span *span = sa_pagemap_find(address);
    const struct sa_map_node *node;
    uintptr_t at = address;

    for (size_t i = 0; !span && i < FAR_ENOUGH && (node = pagemap_node(at)); i++) {
        if (!sa_load_acquire(&node->leaf[at / step % (1ul << SA_MAP_NODE_BITS)]))
            at = sa_align_down(at, step); /* no span has pages there */
        at -= SA_PAGE_BYTES;
        span = sa_pagemap_find(at);
    }
    return span && address < sa_span_end(span) ? span : NULL;
}

SA_RARE struct sa_span *sa_pagemap_next(uintptr_t *at)
{
    const uintptr_t step = SA_PAGE_BYTES << SA_MAP_LEAF_BITS;
    struct sa_map_node *node;
    struct sa_span *span;

    while (*at >> SA_ADDRESS_BITS == 0) {
        size_t n = *at >> (SA_PAGE_SHIFT + SA_MAP_LEAF_BITS) & ((1u << SA_MAP_NODE_BITS) - 1);

        node = sa_load_acquire(&sa_pagemap.root[*at >> SA_HOME_SHIFT].node);
        if (!node || !sa_load_acquire(&node->leaf[n])) {
            *at = sa_align_down(*at, node ? step : SA_HOME_BYTES) + (node ? step : SA_HOME_BYTES);
            continue;
        }
        span = sa_pagemap_find(*at);
        *at += SA_PAGE_BYTES;
        if (span && sa_load_relaxed(&span->start) == *at - SA_PAGE_BYTES)
            return span;
    }
    return NULL;
}

/* Stores the span of a page, whose entry exists. */
static void pagemap_set(uintptr_t address, struct sa_span *span)
{
    size_t page = address >> SA_PAGE_SHIFT;
    struct sa_map_node *node = sa_load_relaxed(&sa_pagemap.root[address >> SA_HOME_SHIFT].node);
    struct sa_map_leaf *leaf =
        sa_load_relaxed(&node->leaf[page >> SA_MAP_LEAF_BITS & ((1u << SA_MAP_NODE_BITS) - 1)]);

    SA_DCHECK(node && leaf); /* sa_pagemap_grow has made both */
    sa_store_release(&leaf->span[page & ((1u << SA_MAP_LEAF_BITS) - 1)], span);
}

void sa_pagemap_set_ends(struct sa_span *span)
{
    pagemap_set(span->start, span);
    if (span->pages > 1)
        pagemap_set(sa_span_end(span) - SA_PAGE_BYTES, span);
}

/* Sets the class of every page that begins a multiple of step bytes into the span. */
static void pagemap_set_classes(struct sa_span *span, unsigned cls, size_t step)
{
    size_t root = span->start >> SA_HOME_SHIFT;
    uint8_t *classes = sa_load_relaxed(&sa_pagemap.root[root].classes);
    size_t page = span->start >> SA_PAGE_SHIFT & (SA_HOME_PAGES - 1);

    /* A span of objects never crosses a window: see the page heap. */
    SA_DCHECK((sa_span_end(span) - 1) >> SA_HOME_SHIFT == root);
    SA_DCHECK(classes && step > 0 && step % SA_PAGE_BYTES == 0);
    for (size_t i = 0; i < span->pages; i += step >> SA_PAGE_SHIFT)
        sa_store_release(&classes[page + i], (uint8_t)cls);
    if (span->pages == 1 && !sa_hardening.on && root == SA_HOME_START >> SA_HOME_SHIFT)
        sa_store_relaxed(&sa_hot.home_class[page], (uint16_t)SA_CLASS_OFFSET(cls));
}

void sa_pagemap_set_pages(struct sa_span *span)
{
    for (size_t i = 0; i < span->pages; i++)
        pagemap_set(span->start + (i << SA_PAGE_SHIFT), span);
}

void sa_pagemap_set_objects(struct sa_span *span, size_t step)
{
    SA_DCHECK(span->cls > 0);
    sa_pagemap_set_pages(span);
    pagemap_set_classes(span, span->cls, step);
}

void sa_pagemap_clear_classes(struct sa_span *span)
{
    pagemap_set_classes(span, 0, SA_PAGE_BYTES);
}
