/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks at all of a profile file that users of the model may look at, and writes it in each format:
 * for readers of damaged files, under a sanitizer or before an unreadable page.
 */
#ifndef SA_TEST_PROFILE_FILE_WALK_H
#define SA_TEST_PROFILE_FILE_WALK_H

#include "tool/file/convert.h"
#include "tool/page/flame.h"
#include "tool/report/file_report.h"
#include "tool/report/report_keys.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline void profile_file_require(bool fine, const char *what)
{
    if (!fine) {
        fprintf(stderr, "out of bounds: %s\n", what);
        abort();
    }
}

static inline void profile_file_walk(const struct sa_profile_file *f)
{
    size_t letters = strlen(f->default_type) + strlen(f->period_type.name);

    profile_file_require(f->value_count == (uint64_t)f->sample_count * f->type_count, "values");
    for (uint32_t i = 0; i < f->type_count; i++)
        letters += strlen(f->types[i].name) + strlen(f->types[i].unit);
    for (uint32_t i = 0; i < f->sample_count; i++) {
        const struct sa_file_sample *s = &f->samples[i];

        profile_file_require((uint64_t)s->frame + s->depth <= f->frame_count, "frames of a sample");
        profile_file_require((uint64_t)s->value + f->type_count <= f->value_count,
                             "values of a sample");
        profile_file_require((uint64_t)s->label + s->label_count <= f->label_count,
                             "labels of a sample");
    }
    for (uint32_t i = 0; i < f->label_count; i++)
        letters += strlen(f->labels[i].key) + strlen(f->labels[i].text);
    for (uint32_t i = 0; i < f->frame_count; i++)
        profile_file_require(f->frames[i] < f->location_count, "location of a frame");
    for (uint32_t i = 0; i < f->location_count; i++) {
        const struct sa_file_location *l = &f->locations[i];

        profile_file_require(l->mapping == SA_FILE_NONE || l->mapping < f->mapping_count,
                             "mapping");
        profile_file_require((uint64_t)l->line + l->line_count <= f->line_count, "lines");
    }
    for (uint32_t i = 0; i < f->line_count; i++)
        profile_file_require(f->lines[i] < f->function_count, "function");
    for (uint32_t i = 0; i < f->function_count; i++)
        letters += strlen(f->functions[i].name) + strlen(f->functions[i].system_name);
    for (uint32_t i = 0; i < f->mapping_count; i++)
        letters += strlen(f->mappings[i].file) + strlen(f->mappings[i].build_id);
    for (uint32_t i = 0; i < f->single_count; i++)
        profile_file_require(f->singles[i].sample < f->sample_count, "row of a single");
    for (uint32_t i = 0; i < f->comment_count; i++)
        letters += strlen(f->comments[i]);
    profile_file_require(letters < SIZE_MAX, "strings");
}

/* Writes a profile in every format, and its tables. */
static inline void profile_file_write_all(const struct sa_profile_file *f, FILE *nowhere)
{
    const struct sa_report_options report = {
        .by = sa_report_by("function,line,size,stack"), .rows = 3, .width = 80};
    struct sa_buffer out = {NULL, 0, 0};
    struct sa_error e = {SA_EXIT_DONE, ""};

    if (f->type_count)
        profile_file_require(sa_flame_put(f, 0, "x", &out, &e), "a page");
    for (uint32_t i = 0; i < f->type_count; i++) {
        profile_file_require(sa_convert_collapsed(f, i, &out) && sa_convert_heap(f, i, &out),
                             "a format");
        profile_file_require(sa_file_report(f, i, &report, nowhere), "a report");
    }
    sa_buffer_free(&out);
}

#endif
