/* SPDX-License-Identifier: Apache-2.0 */
/* Puts a time line as what changes from moment to moment; see flame_moments.h. */
#include "tool/page/flame_moments.h"

#include <stdlib.h>

/* The samples of the rows at a moment, by their numbers in the page. */
static void count_samples(const struct sa_moment *at, const uint32_t *row_of, size_t rows,
                          uint32_t *ret)
{
    for (size_t i = 0; i < rows; i++)
        ret[i] = 0;
    for (size_t i = 0; i < at->count; i++)
        if (row_of[at->entries[i].row] != SA_FILE_NONE)
            ret[row_of[at->entries[i].row]] = at->entries[i].samples;
}

static void put_changes(struct sa_page_writer *to, const uint32_t *before, const uint32_t *now,
                        size_t rows)
{
    size_t last = 0, count = 0;

    sa_page_put(to, "[");
    for (size_t i = 0; i < rows; i++) {
        if (before[i] == now[i])
            continue;
        sa_page_next(to, count++);
        sa_page_put_number(to, (long long)(i - last));
        sa_page_put(to, ",");
        sa_page_put_number(to, now[i]);
        last = i;
    }
    sa_page_put(to, "]");
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

static void put_heads(struct sa_page_writer *to, const struct sa_moments *m)
{
    sa_page_put_key(to, "moments");
    sa_page_put(to, "{\"times\":[");
    for (size_t i = 0; i < m->count; i++) {
        sa_page_next(to, i);
        sa_page_put_number(to, m->of[i].time_ns / 1000000);
    }
    sa_page_put(to, "],\"unseen\":[");
    for (size_t i = 0; i < m->count; i++) {
        const struct sa_unseen *u = &m->of[i].unseen;

        sa_page_next(to, i);
        sa_page_put(to, "[");
        sa_page_put_double(to, larger(u->bytes, u->past_bytes_weight));
        sa_page_put(to, ",");
        sa_page_put_double(to, larger(u->blocks, u->past_blocks_weight));
        sa_page_put(to, "]");
    }
}

void sa_flame_put_moments(struct sa_page_writer *to, const struct sa_moments *m,
                          const struct sa_flame_frames *frames)
{
    size_t rows = frames->row_count;
    uint32_t *row_of = malloc((m->row_count + 1) * sizeof(*row_of));
    uint32_t *before = calloc(rows + 1, sizeof(*before));
    uint32_t *now = calloc(rows + 1, sizeof(*now));

    to->fine = to->fine && row_of && before && now;
    for (size_t i = 0; to->fine && i < m->row_count; i++)
        row_of[i] = SA_FILE_NONE;
    for (uint32_t i = 0; to->fine && i < rows; i++)
        row_of[frames->rows[i].sample] = i;
    put_heads(to, m);
    sa_page_put(to, "],\n\"changes\":[");
    for (size_t i = 0; to->fine && i < m->count; i++) {
        uint32_t *other = before;

        sa_page_put(to, i ? ",\n" : "");
        count_samples(&m->of[i], row_of, rows, now);
        put_changes(to, before, now, rows);
        before = now;
        now = other;
    }
    sa_page_put(to, "]}");
    free(row_of);
    free(before);
    free(now);
}
