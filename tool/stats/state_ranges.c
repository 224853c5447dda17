/* SPDX-License-Identifier: Apache-2.0 */
/* Free ranges of hugepages, and free spans of the sampled heap, as records of this program; see
 * state.h. Trees become balanced ones, which are walked in bounded time. */
#include "tool/stats/state.h"

#include "alloc/base/thread_safety.h"
#include "alloc/page_heap/huge/huge_heap_internal.h"
#include "alloc/page_heap/page_heap.h"
#include "alloc/page_heap/plain/span_heap.h"
#include "tool/base/array.h"

#include <stdlib.h>
#include <string.h>

#define RANGES_MAX (1u << 17)
#define DEPTH_MAX  256 /* of a tree whose expected depth is logarithmic */
#define SPANS_MAX  (1u << 17)
#define PAGES_MAX  (1ul << (SA_ADDRESS_BITS - SA_PAGE_SHIFT))

static const struct sa_own_field node_fields[] = {
    SA_OWN_FIELD(struct sa_huge_node, start),    SA_OWN_FIELD(struct sa_huge_node, length),
    SA_OWN_FIELD(struct sa_huge_node, since_ns), SA_OWN_FIELD(struct sa_huge_node, left),
    SA_OWN_FIELD(struct sa_huge_node, right),
};

static const struct sa_own_field span_fields[] = {
    SA_OWN_FIELD(struct sa_span, next),
    SA_OWN_FIELD(struct sa_span, pages),
    SA_OWN_FIELD(struct sa_span, idle_since_ns),
};

#define COUNT(fields) ((unsigned)(sizeof(fields) / sizeof(*(fields))))

struct ranges {
    struct sa_huge_node *nodes; /* in the order of addresses */
    size_t count, cap;
    bool damaged;
};

static void add_range(struct ranges *r, const struct sa_huge_node *node)
{
    const struct sa_huge_node *last = r->count ? &r->nodes[r->count - 1] : NULL;

    if (!node->length || node->length > PAGES_MAX || node->start > PAGES_MAX ||
        (last && node->start < last->start + last->length) || r->count == RANGES_MAX ||
        !sa_array_room(&r->nodes, &r->cap, r->count + 1, sizeof(*r->nodes), 64))
        r->damaged = true;
    else
        r->nodes[r->count++] = *node;
}

/* Collects the nodes below an address, from left to right. A tree that is changed meanwhile may
 * lead in a circle, but not deeper than DEPTH_MAX, and not back to lower addresses. */
static void collect(struct sa_state *s, const struct sa_plan *plan, uint64_t address, unsigned deep,
                    struct ranges *r)
{
    struct sa_huge_node node;

    while (address && !r->damaged) {
        memset(&node, 0, sizeof(node));
        if (deep == DEPTH_MAX || !sa_plan_read(s->target, plan, address, &node)) {
            r->damaged = true;
            return;
        }
        collect(s, plan, (uint64_t)(uintptr_t)node.left, deep + 1, r);
        if (!r->damaged)
            add_range(r, &node);
        address = (uint64_t)(uintptr_t)node.right;
    }
}

/* A balanced tree of the nodes [from, to); NULL: there are none. */
static struct sa_huge_node *balance(struct sa_huge_node *nodes, size_t from, size_t to)
{
    size_t middle = from + (to - from) / 2;
    struct sa_huge_node *n = &nodes[middle];

    if (from == to)
        return NULL;
    n->left = balance(nodes, from, middle);
    n->right = balance(nodes, middle + 1, to);
    n->longest = n->length;
    if (n->left && n->left->longest > n->longest)
        n->longest = n->left->longest;
    if (n->right && n->right->longest > n->longest)
        n->longest = n->right->longest;
    return n;
}

static void take_map(struct sa_state *s, const struct sa_plan *plan, const char *field,
                     struct sa_huge_map *own)
{
    uint64_t place = sa_state_place(s, "huge", "struct sa_huge_heap", field);
    struct ranges r = {0};

    collect(s, plan, sa_state_word(s, place), 0, &r);
    s->dropped += r.damaged;
    own->root = balance(r.nodes, 0, r.count);
}

/* A list of free spans, which becomes a list here. */
static bool take_list(struct sa_state *s, const struct sa_plan *plan, uint64_t address,
                      struct sa_span **first, unsigned *left)
{
    struct sa_span **end = first;

    *first = NULL;
    while (address && *left) {
        struct sa_span *own = calloc(1, sizeof(*own));

        if (!own)
            return false;
        (*left)--;
        if (!sa_plan_read(s->target, plan, address, own)) {
            free(own);
            s->dropped++;
            return true;
        }
        address = (uint64_t)(uintptr_t)own->next;
        own->next = NULL;
        *end = own;
        end = &own->next;
    }
    s->dropped += address != 0;
    return true;
}

static bool take_lists(struct sa_state *s, const struct sa_plan *plan, const char *field,
                       struct sa_free_lists *own)
{
    uint64_t place = sa_state_place(s, "sampled", "struct sa_span_heap", field);
    uint64_t heads[SA_FREE_LISTS];
    unsigned left = SPANS_MAX;

    if (s->e->code || !sa_target_read(s->target, place, heads, sizeof(heads)))
        return sa_state_damaged(s, "the heap of sampled blocks");
    for (unsigned i = 0; i < SA_FREE_LISTS; i++) {
        if (!take_list(s, plan, heads[i], &own->first[i], &left))
            return false;
        if (own->first[i])
            own->filled[i / 64] |= 1ull << i % 64;
    }
    return true;
}

/* The span that was freed last counts as free, in a list of its own length. */
static bool take_recent(struct sa_state *s, const struct sa_plan *plan,
                        struct sa_span_heap *own) SA_NO_THREAD_SAFETY_ANALYSIS
{
    uint64_t place = sa_state_place(s, "sampled", "struct sa_span_heap", "recent");
    struct sa_span *span = NULL, *next;
    unsigned one = 1, list;

    if (s->e->code || !take_list(s, plan, sa_state_word(s, place), &span, &one))
        return false;
    if (!span || !span->pages)
        return true;
    list = sa_free_list_index(span->pages);
    next = own->backed.first[list];
    span->next = next;
    own->backed.first[list] = span;
    own->backed.filled[list / 64] |= 1ull << list % 64;
    own->backed.pages += span->pages;
    own->moving_pages -= span->pages < own->moving_pages ? span->pages : own->moving_pages;
    return true;
}

bool sa_state_take_ranges(struct sa_state *s)
{
    struct sa_span_heap *sampled = sa_page_heap_sampled.plain;
    struct sa_plan nodes, spans;

    if (!sa_plan_make(s->table, "struct sa_huge_node", node_fields, COUNT(node_fields), &nodes,
                      s->e) ||
        !sa_plan_make(s->table, "struct sa_span", span_fields, COUNT(span_fields), &spans, s->e))
        return false;
    take_map(s, &nodes, "released.root", &sa_huge_heap_ordinary.released);
    take_map(s, &nodes, "cache.map.root", &sa_huge_heap_ordinary.cache.map);
    if (take_lists(s, &spans, "backed.first", &sampled->backed) &&
        take_lists(s, &spans, "released.first", &sampled->released) &&
        take_recent(s, &spans, sampled))
        return !s->e->code;
    sa_error_set(s->e, SA_EXIT_FAILED, "there is no memory for its spans");
    return false;
}
