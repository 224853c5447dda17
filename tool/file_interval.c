/* SPDX-License-Identifier: Apache-2.0 */
/* Intervals of sets of samples of a profile file; see file_interval.h. */
#include "tool/file_interval.h"

#include "alloc/base/size_class.h"
#include "sampling/estimate/rates.h"

#include <string.h>

static bool counts_blocks(const struct sa_profile_file *file, uint32_t metric)
{
    return strcmp(file->types[metric].unit, "count") == 0;
}

bool sa_file_is_sampled(const struct sa_profile_file *file, uint32_t metric)
{
    static const char *const sets[] = {"inuse_", "allocated_", "deallocated_",
                                       "censored_allocated_"};
    const char *name = file->types[metric].name;

    for (size_t i = 0; i < sizeof(sets) / sizeof(*sets); i++) {
        size_t n = strlen(sets[i]);

        if (strncmp(name, sets[i], n) == 0)
            return strcmp(name + n, counts_blocks(file, metric) ? "objects" : "space") == 0;
    }
    return false;
}

/* The number of samples follows from the rounded estimate. */
bool sa_file_group(const struct sa_profile_file *file, uint32_t metric, uint32_t sample,
                   struct sa_group *ret)
{
    const struct sa_file_sample *s = &file->samples[sample];
    double value = (double)file->values[s->value + metric], samples, off, t = (double)file->period;
    double a = (double)sa_file_number(file, s, "bytes"), p, each;

    if (!(a > 0 && t > 0 && value > 0))
        return false;
    p = sa_rate_probability(t, a);
    each = counts_blocks(file, metric) ? 1 / p : a / p;
    samples = value / each;
    off = samples - (double)(uint64_t)(samples + 0.5);
    off = off < 0 ? -off : off;
    if (samples < 0.5 || samples > 1e15 || off > 0.5 / each + samples * 1e-9)
        return false;
    *ret = (struct sa_group){
        .p = p, .interval = p < 1 ? t : 1, .allocated = a, .samples = (uint64_t)(samples + 0.5)};
    return true;
}

void sa_file_sums_add(const struct sa_profile_file *file, uint32_t metric, uint32_t sample,
                      struct sa_file_sums *sums)
{
    struct sa_group group;

    if (!sa_file_group(file, metric, sample, &group))
        group.p = 0;
    sa_file_sums_add_group(sums, file->values[file->samples[sample].value + metric], &group);
}

void sa_file_sums_add_group(struct sa_file_sums *sums, int64_t value, const struct sa_group *group)
{
    sa_file_add(&sums->value, value);
    if (group->p > 0)
        sa_sums_add(&sums->sums, group);
    else
        sums->unknown = true;
}

struct sa_unseen sa_file_unseen(const struct sa_profile_file *file)
{
    struct sa_unseen unseen = {0};

    if (file->period > 1) {
        unseen.bytes = (double)file->period;
        unseen.blocks =
            1 / sa_rate_probability((double)file->period, (double)sa_size_classes.of[1].size);
    }
    return unseen;
}

struct sa_file_interval sa_file_interval_of(const struct sa_profile_file *file, uint32_t metric,
                                            const struct sa_file_sums *sums,
                                            const struct sa_unseen *unseen)
{
    bool blocks = counts_blocks(file, metric);
    struct salloc_estimate e;

    if (sums->unknown || !sa_file_is_sampled(file, metric))
        return (struct sa_file_interval){.known = false};
    sa_estimate(&sums->sums, unseen, SALLOC_ESTIMATE_WEIGHTED, SA_FILE_LEVEL, &e);
    return (struct sa_file_interval){.known = true,
                                     .samples = e.samples,
                                     .low = blocks ? e.count_low : e.bytes_low,
                                     .high = blocks ? e.count_high : e.bytes_high};
}
