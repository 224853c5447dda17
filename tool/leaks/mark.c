/* SPDX-License-Identifier: Apache-2.0 */
/* Reaching blocks; see mark.h. */
#include "tool/leaks/mark.h"

#include <stdlib.h>
#include <string.h>

#define WORD        sizeof(uint64_t)
#define WAITING_MAX 32768
#define SHORT_BYTES 16384 /* of a block that is read with others */

static uint64_t bitmap_bytes(uint64_t blocks)
{
    return blocks / 8 + 1;
}

uint64_t sa_mark_bytes(uint64_t blocks)
{
    return bitmap_bytes(blocks) + WAITING_MAX * sizeof(struct sa_waiting);
}

bool sa_mark_open(struct sa_mark *m, struct sa_heap *heap, struct sa_scan *scan)
{
    memset(m, 0, sizeof(*m));
    m->heap = heap;
    m->scan = scan;
    m->reached = calloc(bitmap_bytes(heap->blocks), 1);
    m->waiting = calloc(WAITING_MAX, sizeof(*m->waiting));
    heap->reached = m->reached;
    return m->reached && m->waiting;
}

void sa_mark_close(struct sa_mark *m)
{
    if (m->heap)
        m->heap->reached = NULL;
    free(m->reached);
    free(m->waiting);
    memset(m, 0, sizeof(*m));
}

void sa_mark_clear(struct sa_mark *m)
{
    for (uint64_t i = 0; i < bitmap_bytes(m->heap->blocks); i++) {
        m->heap->free[i] &= (uint8_t)~m->reached[i];
        m->reached[i] = 0;
    }
}

void sa_mark_leave_out(struct sa_mark *m)
{
    for (uint64_t i = 0; i < bitmap_bytes(m->heap->blocks); i++) {
        m->heap->free[i] |= m->reached[i];
        m->reached[i] = 0;
    }
}

void sa_mark_block(struct sa_mark *m, const struct sa_block *block)
{
    struct sa_heap_span *span = block->span;

    if (sa_heap_bit(m->reached, block->bit))
        return;
    sa_heap_set_bit(m->reached, block->bit);
    if (sa_span_sample(span) && m->sample)
        m->sample(m->arg, sa_span_sample(span) - 1);
    if (m->count < WAITING_MAX) {
        m->waiting[m->count++] = (struct sa_waiting){block->bit - span->bit, span};
    } else {
        span->place |= SA_SPAN_AGAIN;
        m->again = true;
    }
}

bool sa_mark_words(struct sa_mark *m, const uint64_t *words, size_t count)
{
    uint64_t low = m->heap->low, length = m->heap->high - low;
    struct sa_block block;

    for (size_t i = 0; i < count; i++)
        if (words[i] - low <= length && sa_heap_block(m->heap, words[i], &block))
            sa_mark_block(m, &block);
    return true;
}

static bool scanned(void *arg, uint64_t address, const uint64_t *words, size_t count)
{
    (void)address;
    return sa_mark_words(arg, words, count);
}

/* Blocks that are read together. */
struct batch {
    struct sa_piece pieces[SA_PIECES_MAX];
    size_t count, bytes;
};

/* Reads a batch into the buffer of sa_scan_range, which is for longer blocks. */
static void read_batch(struct sa_mark *m, struct batch *b)
{
    size_t next = 0;

    while (next < b->count) {
        size_t end = next + sa_target_read_many(m->heap->target, b->pieces + next, b->count - next);

        for (; next < end; next++)
            sa_mark_words(m, b->pieces[next].buffer, b->pieces[next].bytes / WORD);
        if (next < b->count) { /* a part of it cannot be read */
            struct sa_piece piece = b->pieces[next++];

            sa_scan_range(m->scan, piece.address, piece.address + piece.bytes, scanned, m);
        }
    }
    b->count = b->bytes = 0;
}

/* Reads a block, or adds it to those that are read together. */
static void read_block(struct sa_mark *m, const struct sa_block *block, struct batch *b)
{
    uint64_t start = (block->start + WORD - 1) & -WORD, end = (block->start + block->bytes) & -WORD;
    const void *words = NULL;

    sa_heap_set_bit(m->heap->free, block->bit);
    if (end <= start)
        return;
    if (end - start > SHORT_BYTES) {
        read_batch(m, b);
        sa_scan_range(m->scan, start, end, scanned, m);
        return;
    }
    /* Where it is alone on its span, what lies around it is not wanted. */
    if (sa_span_blocks(block->span) > 1)
        words = sa_pages_look(m->heap->pages, start, end - start);
    if (words) {
        sa_mark_words(m, words, (end - start) / WORD);
        return;
    }
    b->pieces[b->count++] =
        (struct sa_piece){start, (char *)m->scan->words + b->bytes, end - start};
    b->bytes += end - start;
    if (b->count == SA_PIECES_MAX || b->bytes > SA_SCAN_BYTES - SHORT_BYTES)
        read_batch(m, b);
}

static void read_waiting(struct sa_mark *m)
{
    struct batch batch;

    batch.count = batch.bytes = 0;
    while (m->count || batch.count) {
        if (m->count) {
            struct sa_waiting next = m->waiting[--m->count];
            struct sa_block block = sa_heap_block_at(m->heap, next.span, next.index);

            if (!sa_heap_bit(m->heap->free, block.bit))
                read_block(m, &block, &batch);
        } else {
            read_batch(m, &batch);
        }
    }
}

/* The blocks of marked spans that were reached. */
static void read_marked(struct sa_mark *m)
{
    struct batch batch;

    batch.count = batch.bytes = 0;
    for (size_t i = 0; i < m->heap->count; i++) {
        struct sa_heap_span *span = &m->heap->spans[i];

        if (!(span->place & SA_SPAN_AGAIN))
            continue;
        span->place &= ~(uint64_t)SA_SPAN_AGAIN;
        for (uint32_t k = 0; k < sa_span_blocks(span); k++) {
            struct sa_block block = sa_heap_block_at(m->heap, span, k);

            if (sa_heap_bit(m->reached, block.bit) && !sa_heap_bit(m->heap->free, block.bit))
                read_block(m, &block, &batch);
        }
    }
    read_batch(m, &batch);
}

void sa_mark_run(struct sa_mark *m)
{
    read_waiting(m);
    while (m->again) {
        m->again = false;
        read_marked(m);
        read_waiting(m);
    }
}
