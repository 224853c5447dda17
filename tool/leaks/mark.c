/* SPDX-License-Identifier: Apache-2.0 */
/* Reaching blocks; see mark.h. Each block is read once, whatever is in it. */
#include "tool/leaks/mark.h"

#include "tool/base/array.h"

#include <stdlib.h>
#include <string.h>

#define WORD sizeof(uint64_t)

bool sa_mark_open(struct sa_mark *m, const struct sa_heap *heap, struct sa_scan *scan)
{
    memset(m, 0, sizeof(*m));
    m->heap = heap;
    m->scan = scan;
    m->reached = calloc(heap->blocks / 8 + 1, 1);
    return m->reached != NULL;
}

void sa_mark_close(struct sa_mark *m)
{
    free(m->reached);
    free(m->waiting);
    memset(m, 0, sizeof(*m));
}

bool sa_mark_block(struct sa_mark *m, const struct sa_block *block)
{
    if (sa_heap_bit(m->reached, block->bit) || (m->outside && sa_heap_bit(m->outside, block->bit)))
        return true;
    sa_heap_set_bit(m->reached, block->bit);
    if (block->span->sample && m->sample)
        m->sample(m->arg, block->span->sample - 1);
    if (!sa_array_room(&m->waiting, &m->cap, m->count + 1, sizeof(*m->waiting), 65536))
        return false;
    m->waiting[m->count++] = block->start;
    return true;
}

bool sa_mark_words(struct sa_mark *m, const uint64_t *words, size_t count)
{
    uint64_t low = m->heap->low, length = m->heap->high - low;
    struct sa_block block;

    for (size_t i = 0; i < count; i++)
        if (words[i] - low <= length && sa_heap_block(m->heap, words[i], &block) &&
            !sa_mark_block(m, &block))
            return false;
    return true;
}

static bool scanned(void *arg, uint64_t address, const uint64_t *words, size_t count)
{
    (void)address;
    return sa_mark_words(arg, words, count);
}

/* A block that is read at once. */
static bool read_short(struct sa_mark *m, const struct sa_block *block)
{
    uint64_t start = (block->start + WORD - 1) & -WORD, end = (block->start + block->bytes) & -WORD;

    if (end <= start)
        return true;
    /* Where it is alone on its span, what lies around it is not wanted. */
    if (!(block->span->objects == 1 ? sa_target_read(m->heap->target, start, m->words, end - start)
                                    : sa_pages_read(m->heap->pages, start, m->words, end - start)))
        return sa_scan_range(m->scan, start, end, scanned, m);
    return sa_mark_words(m, m->words, (end - start) / WORD);
}

bool sa_mark_run(struct sa_mark *m)
{
    struct sa_block block;

    while (m->count) {
        if (!sa_heap_block(m->heap, m->waiting[--m->count], &block))
            continue;
        if (!(block.bytes <= sizeof(m->words)
                  ? read_short(m, &block)
                  : sa_scan_range(m->scan, block.start, block.start + block.bytes, scanned, m)))
            return false;
    }
    return true;
}
