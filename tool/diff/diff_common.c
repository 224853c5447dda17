/* SPDX-License-Identifier: Apache-2.0 */
/* Samples of two files, compared; see diff_common.h. Rows are compared by a hash of all that tables
 * are by, so that a sample in both files counts for the same rows of every table. */
#include "tool/diff/diff_common.h"

#include "alloc/base/rng.h"

#include <stdlib.h>
#include <string.h>

static uint64_t hash_text(uint64_t hash, const char *text)
{
    for (; text && *text; text++)
        hash = (hash ^ (uint8_t)*text) * 0x100000001b3ull;
    return sa_rng_mix(hash + 1);
}

/* The hash of each location. NULL: no memory. */
static uint64_t *hash_locations(const struct sa_profile_file *f)
{
    uint64_t *hashes = calloc((size_t)f->location_count + 1, sizeof(*hashes));

    for (uint32_t i = 0; hashes && i < f->location_count; i++) {
        const struct sa_file_location *l = &f->locations[i];
        uint64_t hash = l->address;

        if (l->mapping != SA_FILE_NONE)
            hash = hash_text(hash, f->mappings[l->mapping].file);
        for (uint32_t k = l->line; k < l->line + l->line_count; k++) {
            hash = hash_text(hash, f->functions[f->lines[k]].name);
            hash = hash_text(hash, f->functions[f->lines[k]].file);
            hash = sa_rng_mix(hash ^ (uint64_t)f->line_numbers[k]);
        }
        hashes[i] = hash;
    }
    return hashes;
}

/* The hash of each row. NULL: no memory. */
static uint64_t *hash_rows(const struct sa_profile_file *f)
{
    uint64_t *locations = hash_locations(f);
    uint64_t *hashes = locations ? calloc((size_t)f->sample_count + 1, sizeof(*hashes)) : NULL;

    for (uint32_t i = 0; hashes && i < f->sample_count; i++) {
        const struct sa_file_sample *s = &f->samples[i];
        uint64_t hash = (uint64_t)sa_file_number(f, s, "bytes");

        for (uint32_t k = 0; k < s->depth; k++)
            hash = sa_rng_mix(hash ^ locations[f->frames[s->frame + k]]);
        hashes[i] = hash_text(hash, sa_file_text(f, s, "thread"));
    }
    free(locations);
    return hashes;
}

static int order(const struct sa_file_single *x, const struct sa_file_single *y)
{
    if (x->number != y->number)
        return x->number < y->number ? -1 : 1;
    return (x->ms > y->ms) - (x->ms < y->ms);
}

static int single_order(const void *a, const void *b)
{
    return order(a, b);
}

/* A sorted copy of the list. NULL: no memory. */
static struct sa_file_single *sorted(const struct sa_profile_file *f)
{
    struct sa_file_single *list = calloc((size_t)f->single_count + 1, sizeof(*list));

    if (list && f->single_count) {
        memcpy(list, f->singles, f->single_count * sizeof(*list));
        qsort(list, f->single_count, sizeof(*list), single_order);
    }
    return list;
}

static void count_common(const struct sa_profile_file *before, const struct sa_profile_file *after,
                         const struct sa_file_single *x, const struct sa_file_single *y,
                         const uint64_t *x_rows, const uint64_t *y_rows, struct sa_diff_common *ret)
{
    for (uint32_t i = 0, k = 0; i < before->single_count && k < after->single_count;) {
        int which = order(&x[i], &y[k]);

        if (!which && x_rows[x[i].sample] == y_rows[y[k].sample]) {
            ret->before[x[i].sample]++;
            ret->after[y[k].sample]++;
            ret->samples++;
        }
        i += which <= 0;
        k += which >= 0;
    }
}

bool sa_diff_common(const struct sa_profile_file *before, const struct sa_profile_file *after,
                    struct sa_diff_common *ret)
{
    uint64_t *x_rows = hash_rows(before), *y_rows = hash_rows(after);
    struct sa_file_single *x = sorted(before), *y = sorted(after);
    bool fine;

    *ret = (struct sa_diff_common){.known = before->single_count && after->single_count};
    ret->before = calloc((size_t)before->sample_count + 1, sizeof(*ret->before));
    ret->after = calloc((size_t)after->sample_count + 1, sizeof(*ret->after));
    fine = x_rows && y_rows && x && y && ret->before && ret->after;
    if (fine)
        count_common(before, after, x, y, x_rows, y_rows, ret);
    else
        sa_diff_common_free(ret);
    free(x_rows);
    free(y_rows);
    free(x);
    free(y);
    return fine;
}

void sa_diff_common_free(struct sa_diff_common *c)
{
    free(c->before);
    free(c->after);
    c->before = c->after = NULL;
}
