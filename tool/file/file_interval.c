/* SPDX-License-Identifier: Apache-2.0 */
/* Intervals of sets of samples of a profile file; see file_interval.h. */
#include "tool/file/file_interval.h"

#include "alloc/base/math.h"
#include "alloc/base/size_class.h"
#include "sampling/estimate/rates.h"

#include <math.h>
#include <string.h>

static bool counts_blocks(const struct sa_profile_file *file, uint32_t metric)
{
    return strcmp(file->types[metric].unit, "count") == 0;
}

enum sa_file_kind sa_file_kind(const struct sa_profile_file *file, uint32_t metric)
{
    static const char *const sets[] = {"inuse_", "allocated_", "deallocated_",
                                       "censored_allocated_"};
    static const char *const parts[] = {"resident_space", "swapped_space", "locked_space",
                                        "zero_space"};
    bool blocks = counts_blocks(file, metric);
    const char *name = file->types[metric].name;

    for (size_t i = 0; i < sizeof(sets) / sizeof(*sets); i++) {
        size_t n = strlen(sets[i]);

        if (strncmp(name, sets[i], n) == 0 && strcmp(name + n, blocks ? "objects" : "space") == 0)
            return blocks ? SA_FILE_BLOCKS : SA_FILE_BYTES;
    }
    if (strcmp(name, blocks ? "alloc_objects" : "alloc_space") == 0)
        return SA_FILE_EVER;
    for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++)
        if (strcmp(name, parts[i]) == 0)
            return SA_FILE_PART;
    return SA_FILE_OTHER;
}

bool sa_file_is_sampled(const struct sa_profile_file *file, uint32_t metric)
{
    enum sa_file_kind kind = sa_file_kind(file, metric);

    return kind == SA_FILE_BLOCKS || kind == SA_FILE_BYTES;
}

/* The bytes of a sample's blocks, of which a metric has the number or a part. */
static double space_of(const struct sa_profile_file *file, uint32_t metric,
                       const struct sa_file_sample *s)
{
    static const char blocks[] = "objects", bytes[] = "space";
    const char *name = file->types[metric].name;
    size_t n = strlen(name) - (sizeof(blocks) - 1);
    char space[64] = "inuse_space";
    uint32_t type = metric;

    if (counts_blocks(file, metric)) {
        if (n + sizeof(bytes) > sizeof(space))
            return 0;
        memcpy(space, name, n);
        memcpy(space + n, bytes, sizeof(bytes));
    }
    if (counts_blocks(file, metric) || sa_file_kind(file, metric) == SA_FILE_PART)
        type = sa_file_metric(file, space);
    return type == SA_FILE_NONE ? 0 : (double)file->values[s->value + type];
}

/* Whether a rounded estimate is that of a whole number of samples. */
static bool fits(double value, double each, double *ret)
{
    double samples = value / each, off = samples - (double)(uint64_t)(samples + 0.5);

    *ret = samples;
    return samples >= 0.5 && samples <= 1e15 &&
           (off < 0 ? -off : off) <= 0.5 / each + samples * 1e-9;
}

/* Whether a number of blocks is an estimate, rounded up or down. */
static bool is_rounded(double blocks, double estimate)
{
    double off = blocks - estimate;

    return (off < 0 ? -off : off) < 1 + estimate * 1e-9;
}

bool sa_file_group(const struct sa_profile_file *file, uint32_t metric, uint32_t sample,
                   struct sa_group *ret)
{
    const struct sa_file_sample *s = &file->samples[sample];
    double t = (double)sa_file_interval_bytes(file), a = (double)sa_file_number(file, s, "bytes"),
           p, samples;
    double told = (double)sa_file_number(file, s, SA_FILE_SAMPLES);
    double space = sa_file_kind(file, metric) == SA_FILE_OTHER ? 0 : space_of(file, metric, s);
    bool blocks = counts_blocks(file, metric);

    if (!(a > 0 && space > 0 && (t > 0 || told > 0)))
        return false;
    if (file->difference) /* of how many samples each way it does not say */
        return false;
    p = told > 0 ? told * a / space : sa_rate_probability(t, a);
    if (told > 0 && p > SA_RATE_CERTAIN)
        p = 1;
    if (told > 0 && p < 1)
        t = -1 / sa_expm1(sa_log1p(-p) / a);
    if (!fits(space, a / p, &samples))
        return false;
    if (blocks && !is_rounded((double)file->values[s->value + metric], samples / p))
        return false;
    *ret = (struct sa_group){
        .p = p, .interval = p < 1 ? t : 1, .allocated = a, .samples = (uint64_t)(samples + 0.5)};
    return true;
}

/*
 * Adds bytes that are a part of sampled blocks. The variance follows from the part of each block,
 * of which only the sum is known. It is largest if each block has either all of its bytes there or
 * none, but for one.
 */
static void add_part(struct sa_value_sums *sums, double estimate, const struct sa_group *group)
{
    double p = group->p, a = group->allocated, all = estimate * p,
           most = a * (double)group->samples;
    double whole, rest, squares;

    if (all > most)
        all = most;
    whole = (double)(uint64_t)(all / a);
    rest = all - whole * a;
    squares = whole * a * a + rest * rest;
    sums->samples += group->samples;
    if (p == 1) {
        sums->certain += all;
        return;
    }
    sums->sampled += all;
    sums->missed += all * (1 - p) / p;
    sums->variance += squares * (1 - p) / (p * p);
    sums->squares += squares * (1 - p) / p;
}

void sa_file_sums_add_group(struct sa_file_sums *sums, enum sa_file_kind kind, int64_t value,
                            const struct sa_group *group)
{
    sa_file_add(&sums->value, value);
    if (!(group->p > 0) || value < 0)
        sums->unknown = true;
    else if (kind == SA_FILE_PART)
        add_part(&sums->parts, (double)value, group);
    else
        sa_sums_add(&sums->sums, group);
}

void sa_file_sums_add(const struct sa_profile_file *file, uint32_t metric, uint32_t sample,
                      struct sa_file_sums *sums)
{
    const struct sa_file_sample *s = &file->samples[sample];
    int64_t value = file->values[s->value + metric];
    enum sa_file_kind kind = sa_file_kind(file, metric);
    struct sa_group group;

    if (kind == SA_FILE_EVER && s->sums != SA_FILE_NONE && value >= 0) {
        sa_file_add(&sums->value, value);
        sa_sums_merge(&sums->sums, &file->sums[s->sums]);
        return;
    }
    if (!sa_file_group(file, metric, sample, &group))
        group.p = 0;
    sa_file_sums_add_group(sums, kind, value, &group);
}

struct sa_unseen sa_file_unseen(const struct sa_profile_file *file)
{
    double small = (double)sa_size_classes.of[1].size;
    struct sa_unseen unseen = {0};
    int64_t period = sa_file_interval_bytes(file);
    struct sa_group group;

    if (period <= 0) /* sampling was off, or not by bytes */
        unseen.bytes = unseen.blocks = INFINITY;
    if (period > 1) {
        unseen.bytes = (double)period;
        unseen.blocks = 1 / sa_rate_probability((double)period, small);
    }
    for (uint32_t m = 0; m < file->type_count; m++) {
        if (sa_file_kind(file, m) != SA_FILE_BYTES)
            continue;
        for (uint32_t i = 0; i < file->sample_count; i++) {
            if (!sa_file_number(file, &file->samples[i], SA_FILE_SAMPLES) ||
                !sa_file_group(file, m, i, &group) || group.p == 1)
                continue;
            if (unseen.bytes < group.interval)
                unseen.bytes = group.interval;
            if (unseen.blocks < 1 / group.p)
                unseen.blocks = 1 / group.p;
        }
    }
    return unseen;
}

struct sa_file_interval sa_file_interval_of(const struct sa_profile_file *file, uint32_t metric,
                                            const struct sa_file_sums *sums,
                                            const struct sa_unseen *unseen)
{
    enum sa_file_kind kind = sa_file_kind(file, metric);
    bool blocks = counts_blocks(file, metric);
    static const struct sa_unseen none;
    struct salloc_interval part;
    struct salloc_estimate e;

    if (sums->unknown || kind == SA_FILE_OTHER)
        return (struct sa_file_interval){.known = false};
    if (kind == SA_FILE_PART) {
        sa_estimate_value(&sums->parts, unseen ? unseen : &none, SA_FILE_LEVEL, &part);
        return (struct sa_file_interval){
            .known = true, .samples = sums->parts.samples, .low = part.low, .high = part.high};
    }
    sa_estimate(&sums->sums, unseen, SALLOC_ESTIMATE_WEIGHTED, SA_FILE_LEVEL, &e);
    return (struct sa_file_interval){.known = true,
                                     .samples = e.samples,
                                     .low = blocks ? e.count_low : e.bytes_low,
                                     .high = blocks ? e.count_high : e.bytes_high};
}
