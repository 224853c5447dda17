/* SPDX-License-Identifier: Apache-2.0 */
/* Joins two profiles, and compares each of their metrics; see flame_diff.h. */
#include "tool/page/flame_diff.h"

#include <stdlib.h>
#include <string.h>

/* The metrics that both profiles have: index of each in the two. */
struct pairs {
    uint32_t before[SA_FILE_TYPES_MAX], after[SA_FILE_TYPES_MAX];
    uint32_t count;
};

static void find_pairs(const struct sa_profile_file *before, const struct sa_profile_file *after,
                       struct pairs *ret)
{
    ret->count = 0;
    for (uint32_t i = 0; i < before->type_count && ret->count < SA_FILE_TYPES_MAX; i++) {
        uint32_t other = sa_file_metric(after, before->types[i].name);

        if (other == SA_FILE_NONE || strcmp(before->types[i].unit, after->types[other].unit) != 0 ||
            sa_file_metric(before, before->types[i].name) != i)
            continue;
        ret->before[ret->count] = i;
        ret->after[ret->count++] = other;
    }
}

/* --- one file of two --- */

/* An array of two. */
static void *joined(const void *a, size_t a_count, const void *b, size_t b_count, size_t bytes)
{
    char *both = calloc(a_count + b_count + 1, bytes);

    if (both && a_count)
        memcpy(both, a, a_count * bytes);
    if (both && b_count)
        memcpy(both + a_count * bytes, b, b_count * bytes);
    return both;
}

#define JOIN(field, count)                                                                         \
    (both->count = a->count + b->count,                                                            \
     (both->field = joined(a->field, a->count, b->field, b->count, sizeof(*a->field))) != NULL)

/* Moves the indices of what comes from the second file behind those of the first. */
static void shift(struct sa_profile_file *both, const struct sa_profile_file *a)
{
    for (uint32_t i = a->line_count; i < both->line_count; i++)
        both->lines[i] += a->function_count;
    for (uint32_t i = a->frame_count; i < both->frame_count; i++)
        both->frames[i] += a->location_count;
    for (uint32_t i = a->location_count; i < both->location_count; i++) {
        if (both->locations[i].mapping != SA_FILE_NONE)
            both->locations[i].mapping += a->mapping_count;
        both->locations[i].line += a->line_count;
    }
    for (uint32_t i = 0; i < both->sample_count; i++)
        both->samples[i].sums = SA_FILE_NONE; /* the comparisons have them */
    for (uint32_t i = a->sample_count; i < both->sample_count; i++) {
        both->samples[i].frame += a->frame_count;
        both->samples[i].label += a->label_count;
    }
}

/* The values of the metrics that both have. */
static void set_values(struct sa_profile_file *both, const struct sa_profile_file *a,
                       const struct sa_profile_file *b, const struct pairs *pairs)
{
    uint32_t at = 0;

    for (uint32_t i = 0; i < both->sample_count; i++) {
        bool first = i < a->sample_count;
        const struct sa_profile_file *f = first ? a : b;
        const int64_t *values = f->values + f->samples[first ? i : i - a->sample_count].value;

        both->samples[i].value = at;
        for (uint32_t m = 0; m < pairs->count; m++)
            both->values[at++] = values[first ? pairs->before[m] : pairs->after[m]];
    }
}

/* False: there is no memory. */
static bool join(struct sa_profile_file *both, const struct sa_profile_file *a,
                 const struct sa_profile_file *b, const struct pairs *pairs)
{
    int64_t x = sa_file_interval_bytes(a), y = sa_file_interval_bytes(b);

    *both = (struct sa_profile_file){.default_type = a->default_type,
                                     .period = x > y ? x : y,
                                     .time_ns = b->time_ns,
                                     .type_count = pairs->count};
    both->types = calloc((size_t)pairs->count + 1, sizeof(*both->types));
    if (!both->types || !JOIN(mappings, mapping_count) || !JOIN(functions, function_count) ||
        !JOIN(locations, location_count) || !JOIN(samples, sample_count) ||
        !JOIN(labels, label_count) || !JOIN(frames, frame_count) || !JOIN(lines, line_count) ||
        !JOIN(comments, comment_count))
        return false;
    both->line_numbers = joined(a->line_numbers, a->line_count, b->line_numbers, b->line_count,
                                sizeof(*a->line_numbers));
    both->value_count = both->sample_count * pairs->count;
    both->values = calloc((size_t)both->value_count + 1, sizeof(*both->values));
    if (!both->line_numbers || !both->values)
        return false;
    for (uint32_t m = 0; m < pairs->count; m++)
        both->types[m] = a->types[pairs->before[m]];
    shift(both, a);
    set_values(both, a, b, pairs);
    return true;
}

static void free_joined(struct sa_profile_file *both)
{
    free(both->types);
    free(both->mappings);
    free(both->functions);
    free(both->locations);
    free(both->samples);
    free(both->labels);
    free(both->frames);
    free(both->lines);
    free(both->line_numbers);
    free(both->values);
    free(both->comments);
}

/* --- all of it --- */

/* What the page shows first. */
static bool choose(const struct sa_flame_diff *d, const char *metric, uint32_t *ret,
                   struct sa_error *e)
{
    uint32_t first = sa_file_metric(d->before, metric);
    const char *name = first == SA_FILE_NONE ? metric : d->before->types[first].name;

    *ret = sa_file_find_metric(&d->both, name ? name : "", "the comparison", e);
    return !e->code;
}

bool sa_flame_diff_make(struct sa_flame_diff *d, const struct sa_profile_file *before,
                        const struct sa_profile_file *after, const char *metric,
                        uint32_t *ret_metric, struct sa_error *e)
{
    struct pairs pairs;
    bool fine;

    *d = (struct sa_flame_diff){.before = before, .after = after};
    find_pairs(before, after, &pairs);
    if ((uint64_t)before->sample_count + after->sample_count > UINT32_MAX / SA_FILE_TYPES_MAX) {
        sa_error_set(e, SA_EXIT_FAILED, "the profiles have too many samples for a page");
        return false;
    }
    fine = join(&d->both, before, after, &pairs);
    d->metrics = fine ? calloc((size_t)pairs.count + 1, sizeof(*d->metrics)) : NULL;
    fine = d->metrics;
    for (uint32_t m = 0; fine && m < pairs.count; m++)
        fine = sa_diff_open(&d->metrics[m], before, after, pairs.before[m], pairs.after[m], 0);
    if (!fine)
        sa_error_set(e, SA_EXIT_FAILED, "there is no memory for the comparison");
    if (!fine || !choose(d, metric, ret_metric, e)) {
        sa_flame_diff_free(d);
        return false;
    }
    return true;
}

void sa_flame_diff_free(struct sa_flame_diff *d)
{
    for (uint32_t m = 0; d->metrics && m < d->both.type_count; m++)
        sa_diff_close(&d->metrics[m]); /* all zero is fine, too */
    free(d->metrics);
    free_joined(&d->both);
    memset(d, 0, sizeof(*d));
}

static const struct sa_group *group_of(const struct sa_flame_diff *d, uint32_t metric,
                                       uint32_t sample)
{
    const struct sa_diff *of = &d->metrics[metric];
    uint32_t first = d->before->sample_count;

    return sample < first ? &of->before.groups[sample] : &of->after.groups[sample - first];
}

const struct sa_group *sa_flame_diff_group(const struct sa_flame_diff *d, uint32_t metric,
                                           uint32_t sample)
{
    const struct sa_group *group = group_of(d, metric, sample);

    return d->metrics[metric].kind == SA_DIFF_IN_USE && group->p > 0 ? group : NULL;
}

double sa_flame_diff_probability(const struct sa_flame_diff *d, uint32_t sample)
{
    for (uint32_t m = 0; m < d->both.type_count; m++)
        if (group_of(d, m, sample)->p > 0)
            return group_of(d, m, sample)->p;
    return 0;
}
