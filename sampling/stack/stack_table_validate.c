/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks the invariants of the stack table, which stack_table.c lists. Debug builds do so at each
 * maintenance pass. The check visits each stack and each ring once, under STACKS.
 */
#include "alloc/base/bits.h"
#include "alloc/base/fatal.h"
#include "sampling/stack/stack_table_internal.h"

/* What the stacks in the buckets add up to. */
struct found {
    size_t stacks;
    size_t taken;        /* slots taken, of the blocks of these stacks */
    size_t ready, quiet; /* blocks that have to be in a ready ring, and in the quiet ring */
};

/* Checks the block of a stack, whose size is known to be valid. Slots are cut in order, so each
 * block has a stack in slot 0. */
static void check_block(const struct stack_block *b, struct found *found)
{
    SA_CHECK(b->taken && !(b->taken & (b->taken + 1)) && !(b->taken >> stack_slots_of(b->size)));
    SA_CHECK(!(b->live & ~b->taken) && !(b->used & ~b->taken));
    SA_CHECK((b->ready.next != NULL) == (b->live != b->taken));
    SA_CHECK((b->quiet.next != NULL) == !b->live);
    found->taken += (size_t)__builtin_popcount(b->taken);
    found->ready += b->live != b->taken;
    found->quiet += !b->live;
}

static void check_stack(const struct sa_stack *s, struct found *found)
{
    struct stack_block *b = stack_block_of(s);

    found->stacks++;
    SA_CHECK(b->size < STACK_SLOT_SIZES);
    if (s->slot == 0)
        check_block(b, found);
    SA_CHECK(s->slot < stack_slots_of(b->size) && s == stack_in_slot(b, s->slot));
    SA_CHECK(s->depth > 0 && s->depth <= stack_slot_frames[b->size]);
    SA_CHECK(b->taken & 1u << s->slot);
    SA_CHECK((s->references > 0) == ((b->live >> s->slot & 1) != 0));
}

/* Checks a ready ring, longest waiting first, and returns its blocks. */
static size_t check_ready(const struct stack_table *t, unsigned size, size_t max)
    SA_REQUIRES(SA_RANK_STACKS)
{
    const struct stack_ring *head = &t->ready[size];
    uint32_t since = 0;
    size_t n = 0;

    for (struct stack_ring *l = head->next; l != head; l = l->next) {
        const struct stack_block *b = stack_ready_block(l);

        SA_CHECK(n++ < max && l->next->prev == l);
        SA_CHECK(b->size == size && b->live != b->taken);
        SA_CHECK(n == 1 || (int32_t)(b->ready_since - since) >= 0);
        since = b->ready_since;
    }
    SA_CHECK(head->next->prev == head);
    return n;
}

/* Checks the quiet ring, and returns its blocks. */
static size_t check_quiet(const struct stack_table *t, size_t max) SA_REQUIRES(SA_RANK_STACKS)
{
    const struct stack_ring *head = &t->quiet;
    uint32_t since = 0;
    size_t n = 0;

    for (struct stack_ring *l = head->next; l != head; l = l->next) {
        const struct stack_block *b = stack_quiet_block(l);

        SA_CHECK(n++ < max && l->next->prev == l);
        SA_CHECK(b->taken && !b->live);
        SA_CHECK(n == 1 || (int32_t)(b->quiet_since - since) >= 0);
        since = b->quiet_since;
    }
    SA_CHECK(head->next->prev == head);
    return n;
}

void sa_stack_table_check(const struct stack_table *t)
{
    struct found found = {0};
    size_t ready = 0;

    SA_CHECK(sa_stack_unknown.depth == 0 && sa_stack_unknown.references == 0);
    if (!t->buckets)
        return;
    SA_CHECK(!(t->half & (t->half - 1)) && t->half <= t->used && t->used < 2 * t->half);
    SA_CHECK(t->used >= STACK_BUCKETS_MIN && t->used <= STACK_BUCKETS_MAX);
    for (uint32_t i = 0; i < t->used; i++)
        for (const struct sa_stack *s = t->buckets[i]; s; s = s->next) {
            SA_CHECK(stack_bucket_of(t, s->hash) == &t->buckets[i]);
            check_stack(s, &found);
            SA_CHECK(found.stacks <= t->stats.stacks); /* also ends a chain that is a cycle */
        }
    SA_CHECK(found.stacks == t->stats.stacks);
    SA_CHECK(found.taken == found.stacks);
    SA_CHECK((uint32_t)(t->stats.stacks + t->stats.evicted) == t->now);
    for (unsigned i = 0; i < STACK_SLOT_SIZES; i++) {
        const struct stack_block *b = t->carving[i];

        ready += check_ready(t, i, found.ready - ready);
        SA_CHECK(!b || (b->size == i && !(b->taken >> (stack_slots_of(i) - 1))));
    }
    SA_CHECK(ready == found.ready);
    SA_CHECK(check_quiet(t, found.quiet) == found.quiet);
    SA_CHECK(t->next <= t->end && t->next % STACK_BLOCK_BYTES == 0);
    SA_CHECK(t->stats.bytes >= STACK_BUCKETS_MAX * sizeof(*t->buckets) + (t->end - t->next));
}
