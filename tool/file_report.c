/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of a profile file; see file_report.h. */
#include "tool/file_report.h"

#include "tool/demangle.h"
#include "tool/file_interval.h"

#include <stdlib.h>
#include <string.h>

#define KEY_BYTES    24 /* of a size */
#define NOT_RECORDED "[not recorded]"

enum table { FLAT, CUMULATIVE, LIBRARY, SIZE, THREAD, TABLES };

/* A sample that counts for a row of a table. */
struct entry {
    const char *key;
    uint32_t sample;
};

struct row {
    const char *key;
    struct sa_file_sums sums;
};

static int entry_order(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    int order = strcmp(x->key, y->key);

    return order ? order : (x->sample > y->sample) - (x->sample < y->sample);
}

static int row_order(const void *a, const void *b)
{
    const struct row *x = a, *y = b;

    if (x->sums.value != y->sums.value)
        return x->sums.value > y->sums.value ? -1 : 1;
    return strcmp(x->key, y->key);
}

static const char *library_key(const struct sa_profile_file *file, uint32_t frame)
{
    uint32_t mapping = file->locations[file->frames[frame]].mapping;

    return mapping == SA_FILE_NONE ? "[unknown]" : file->mappings[mapping].file;
}

static void format_bytes(double bytes, char *ret, size_t cap)
{
    static const char units[] = "KMGT";
    int unit = -1;

    while (unit < 3 && bytes >= 1023.95) {
        bytes /= 1024;
        unit++;
    }
    if (unit < 0)
        snprintf(ret, cap, "%.0f B", bytes);
    else
        snprintf(ret, cap, "%.1f %ciB", bytes, units[unit]);
}

/* The key of a sample, but for the cumulative table. room: for text that the file does not have. */
static const char *key_of(const struct sa_profile_file *file, const struct sa_file_sample *s,
                          enum table table, char *room)
{
    const char *name;

    if (table == THREAD) {
        name = sa_file_text(file, s, "thread");
        return name ? name : NOT_RECORDED;
    }
    if (table == SIZE) {
        int64_t bytes = sa_file_number(file, s, "bytes");

        format_bytes((double)bytes, room, KEY_BYTES);
        return bytes > 0 ? room : NOT_RECORDED;
    }
    if (!s->depth)
        return "[no stack]";
    return table == FLAT ? sa_file_location_name(file, &file->locations[file->frames[s->frame]])
                         : library_key(file, s->frame);
}

static size_t collect(const struct sa_profile_file *file, uint32_t metric, enum table table,
                      struct entry *entries, char (*keys)[KEY_BYTES])
{
    size_t count = 0;

    for (uint32_t i = 0; i < file->sample_count; i++) {
        const struct sa_file_sample *s = &file->samples[i];

        if (!file->values[s->value + metric])
            continue;
        if (table != CUMULATIVE)
            entries[count++] = (struct entry){key_of(file, s, table, keys[i]), i};
        else
            for (uint32_t k = 0; k < s->depth; k++)
                entries[count++] = (struct entry){
                    sa_file_location_name(file, &file->locations[file->frames[s->frame + k]]), i};
    }
    qsort(entries, count, sizeof(*entries), entry_order);
    return count;
}

static size_t make_rows(const struct sa_profile_file *file, uint32_t metric,
                        const struct entry *entries, size_t count, struct row *rows)
{
    size_t kept = 0;

    for (size_t i = 0; i < count; i++) {
        bool same_key = i && strcmp(entries[i].key, entries[i - 1].key) == 0;

        if (same_key && entries[i].sample == entries[i - 1].sample)
            continue; /* a recursion counts once */
        if (!same_key)
            rows[kept++] = (struct row){.key = entries[i].key};
        sa_file_sums_add(file, metric, entries[i].sample, &rows[kept - 1].sums);
    }
    qsort(rows, kept, sizeof(*rows), row_order);
    return kept;
}

/* Formats a number of the metric's unit. */
static void format_value(const struct sa_profile_file *file, uint32_t metric, double value,
                         char *ret, size_t cap)
{
    if (strcmp(file->types[metric].unit, "bytes") == 0)
        format_bytes(value, ret, cap);
    else
        snprintf(ret, cap, "%.0f", value);
}

static void put_row(const struct sa_profile_file *file, uint32_t metric, const struct row *row,
                    int64_t all, int width, FILE *to)
{
    struct sa_file_interval i = sa_file_interval_of(file, metric, &row->sums, NULL);
    char *plain = sa_demangle(row->key), value[32], low[32] = "-", high[32] = "-";

    format_value(file, metric, (double)row->sums.value, value, sizeof(value));
    if (i.known) {
        format_value(file, metric, i.low, low, sizeof(low));
        format_value(file, metric, i.high, high, sizeof(high));
    }
    fprintf(to, "%12s %5.1f%% %11s %11s  %.*s\n", value,
            all ? 100.0 * (double)row->sums.value / (double)all : 0.0, low, high,
            width > 54 ? width - 44 : 10, plain ? plain : row->key);
    free(plain);
}

static void put_total(const struct sa_profile_file *file, uint32_t metric,
                      const struct sa_file_sums *all, FILE *to)
{
    struct sa_unseen unseen = sa_file_unseen(file);
    struct sa_file_interval i = sa_file_interval_of(file, metric, all, &unseen);

    fprintf(to, "%s: %lld %s", file->types[metric].name, (long long)all->value,
            file->types[metric].unit);
    if (i.known)
        fprintf(to, " (95 %% interval %.0f to %.0f), from %llu samples", i.low, i.high,
                (unsigned long long)i.samples);
    fprintf(to, "\nsampling interval: %lld bytes\n", (long long)file->period);
}

bool sa_file_report(const struct sa_profile_file *file, uint32_t metric, unsigned rows, int width,
                    FILE *to)
{
    static const char *const heads[TABLES] = {"function, flat", "function, with all it calls",
                                              "library", "size", "thread"};
    size_t most = (size_t)file->sample_count + file->frame_count + 1, count;
    struct entry *entries = calloc(most, sizeof(*entries));
    struct row *row = calloc(most, sizeof(*row));
    struct sa_file_sums all = {0};
    char(*keys)[KEY_BYTES] = calloc((size_t)file->sample_count + 1, sizeof(*keys));
    bool fine = entries && row && keys;

    for (uint32_t i = 0; i < file->sample_count; i++)
        if (file->values[file->samples[i].value + metric])
            sa_file_sums_add(file, metric, i, &all);
    if (fine)
        put_total(file, metric, &all, to);
    for (enum table table = FLAT; fine && table < TABLES; table++) {
        count = collect(file, metric, table, entries, keys);
        count = make_rows(file, metric, entries, count, row);
        fprintf(to, "\n%12s %6s %11s %11s  %s\n", file->types[metric].name, "share", "95 %: from",
                "to", heads[table]);
        for (size_t i = 0; i < count && i < rows; i++)
            put_row(file, metric, &row[i], all.value, width, to);
        if (count > rows)
            fprintf(to, "%12s %zu more\n", "", count - rows);
    }
    free(entries);
    free(row);
    free(keys);
    return fine;
}
