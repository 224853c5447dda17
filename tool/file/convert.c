/* SPDX-License-Identifier: Apache-2.0 */
/* Writers of the formats; see convert.h. All numbers are sums of those of the file, which rounds
 * each sample once, so totals agree between formats to the byte. */
#include "tool/file/convert.h"

#include "tool/base/text.h"

#include <stdlib.h>
#include <string.h>

static const struct sa_file_format formats[] = {
    {".pb.gz", true, false, sa_convert_proto},
    {".pb", false, false, sa_convert_proto},
    {".collapsed", false, true, sa_convert_collapsed},
    {".folded", false, true, sa_convert_collapsed},
    {".heap", false, true, sa_convert_heap},
};

const struct sa_file_format *sa_file_format_of(const char *name)
{
    size_t length = strlen(name);

    for (size_t i = 0; i < sizeof(formats) / sizeof(*formats); i++) {
        const char *ending = formats[i].ending;
        size_t n = strlen(ending);

        if (strcmp(name, ending + 1) == 0 ||
            (length >= n && strcmp(name + length - n, ending) == 0))
            return &formats[i];
    }
    return NULL;
}

/* The bytes as they were: what the model does not have is kept too. */
bool sa_convert_proto(const struct sa_profile_file *file, uint32_t metric, struct sa_buffer *out)
{
    (void)metric;
    return sa_text_put(out, file->data.data, file->data.used);
}

/* A name as a frame of a collapsed stack, in which ';' separates frames. */
static bool put_frame(struct sa_buffer *out, const char *name)
{
    size_t from = out->used;

    if (!sa_text_add(out, "%s", *name ? name : "[unknown]"))
        return false;
    for (size_t i = from; i < out->used; i++)
        if (out->data[i] == ';')
            out->data[i] = ':';
    return true;
}

/* A location without a function gets the name of its file, and the offset in that. */
static bool put_location(const struct sa_profile_file *file, const struct sa_file_location *l,
                         struct sa_buffer *out)
{
    const struct sa_file_mapping *m;
    const char *slash;

    for (uint32_t i = l->line_count; i-- > 0;) {
        if (!put_frame(out, file->functions[file->lines[l->line + i]].name) ||
            (i && !sa_text_add(out, ";")))
            return false;
    }
    if (l->line_count)
        return true;
    if (l->mapping == SA_FILE_NONE)
        return sa_text_add(out, "0x%llx", (unsigned long long)l->address);
    m = &file->mappings[l->mapping];
    slash = strrchr(m->file, '/');
    return put_frame(out, slash ? slash + 1 : m->file) &&
           sa_text_add(out, "+0x%llx", (unsigned long long)(l->address - m->start + m->offset));
}

/* A line of text, as a range of a buffer, and its number. */
struct line {
    size_t text, bytes;
    int64_t values[4];
};

/* The text that qsort's order functions compare. */
static const char *sorted_text;

static int text_order(const void *a, const void *b)
{
    const struct line *x = a, *y = b;
    size_t n = x->bytes < y->bytes ? x->bytes : y->bytes;
    int order = memcmp(sorted_text + x->text, sorted_text + y->text, n);

    return order ? order : (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

static int value_order(const void *a, const void *b)
{
    static const uint8_t of[4] = {1, 3, 0, 2}; /* bytes before blocks */
    const struct line *x = a, *y = b;

    for (unsigned i = 0; i < 4; i++)
        if (x->values[of[i]] != y->values[of[i]])
            return x->values[of[i]] > y->values[of[i]] ? -1 : 1;
    return text_order(a, b);
}

/* Adds up, in place, what lines of the same text have, and sorts the largest first. */
static size_t merge(struct line *lines, size_t count, const char *text)
{
    size_t kept = 0;

    sorted_text = text;
    qsort(lines, count, sizeof(*lines), text_order);
    for (size_t i = 0; i < count; i++) {
        if (kept && text_order(&lines[kept - 1], &lines[i]) == 0) {
            for (unsigned k = 0; k < 4; k++)
                sa_file_add(&lines[kept - 1].values[k], lines[i].values[k]);
        } else {
            lines[kept++] = lines[i];
        }
    }
    qsort(lines, kept, sizeof(*lines), value_order);
    return kept;
}

bool sa_convert_collapsed(const struct sa_profile_file *file, uint32_t metric,
                          struct sa_buffer *out)
{
    struct line *lines = calloc((size_t)file->sample_count + 1, sizeof(*lines));
    struct sa_buffer text = {NULL, 0, 0};
    size_t count = 0;
    bool fine = lines != NULL;

    for (uint32_t i = 0; fine && i < file->sample_count; i++) {
        const struct sa_file_sample *s = &file->samples[i];

        if (!file->values[s->value + metric])
            continue;
        lines[count] = (struct line){.text = text.used};
        lines[count].values[0] = file->values[s->value + metric];
        for (uint32_t k = s->depth; fine && k-- > 0;)
            fine = put_location(file, &file->locations[file->frames[s->frame + k]], &text) &&
                   (!k || sa_text_add(&text, ";"));
        if (!s->depth)
            fine = sa_text_add(&text, "[no stack]");
        lines[count].bytes = text.used - lines[count].text;
        count++;
    }
    if (fine)
        count = merge(lines, count, text.data);
    for (size_t i = 0; fine && i < count; i++)
        fine = sa_text_put(out, text.data + lines[i].text, lines[i].bytes) &&
               sa_text_add(out, " %lld\n", (long long)lines[i].values[0]);
    sa_buffer_free(&text);
    free(lines);
    return fine;
}

static int64_t value(const struct sa_profile_file *file, const struct sa_file_sample *s,
                     uint32_t metric)
{
    return metric == SA_FILE_NONE ? 0 : file->values[s->value + metric];
}

static bool put_values(struct sa_buffer *out, const int64_t *v)
{
    return sa_text_add(out, "%6lld: %8lld [%6lld: %8lld]", (long long)v[0], (long long)v[1],
                       (long long)v[2], (long long)v[3]);
}

/* As /proc/PID/maps has it: readers look for names there. */
static bool put_mappings(const struct sa_profile_file *file, struct sa_buffer *out)
{
    bool fine = sa_text_add(out, "\nMAPPED_LIBRARIES:\n");

    for (uint32_t i = 0; fine && i < file->mapping_count; i++) {
        const struct sa_file_mapping *m = &file->mappings[i];

        fine =
            sa_text_add(out, "%08llx-%08llx r-xp %08llx 00:00 0 %s\n", (unsigned long long)m->start,
                        (unsigned long long)m->limit, (unsigned long long)m->offset, m->file);
    }
    return fine;
}

/* gperftools' format, as sampling/export/write_text.c writes it. Its addresses are return
 * addresses, those of profile.proto lie in the call before. */
bool sa_convert_heap(const struct sa_profile_file *file, uint32_t metric, struct sa_buffer *out)
{
    struct line *lines = calloc((size_t)file->sample_count + 1, sizeof(*lines));
    struct sa_buffer text = {NULL, 0, 0};
    bool in_use = strcmp(file->types[metric].name, "inuse_space") == 0;
    uint32_t types[4] = {sa_file_objects(file, metric), metric,
                         in_use ? sa_file_metric(file, "alloc_objects") : SA_FILE_NONE,
                         in_use ? sa_file_metric(file, "alloc_space") : SA_FILE_NONE};
    int64_t all[4] = {0};
    size_t count = 0;
    bool fine = lines != NULL;

    for (uint32_t i = 0; fine && i < file->sample_count; i++) {
        const struct sa_file_sample *s = &file->samples[i];
        struct line *line = &lines[count];
        bool any = false;

        *line = (struct line){.text = text.used};
        for (unsigned k = 0; k < 4; k++) {
            line->values[k] = value(file, s, types[k]);
            any |= line->values[k] != 0;
            sa_file_add(&all[k], line->values[k]);
        }
        if (!any)
            continue;
        fine = sa_text_add(&text, " @");
        for (uint32_t k = 0; fine && k < s->depth; k++)
            fine = sa_text_add(
                &text, " 0x%llx",
                (unsigned long long)file->locations[file->frames[s->frame + k]].address + 1);
        line->bytes = text.used - line->text;
        count++;
    }
    if (fine)
        count = merge(lines, count, text.data);
    fine = fine && sa_text_add(out, "heap profile: ") && put_values(out, all) &&
           sa_text_add(out, " @ heapprofile\n");
    for (uint32_t i = 0; fine && i < file->comment_count; i++)
        fine = sa_text_add(out, "# %s\n", file->comments[i]);
    for (size_t i = 0; fine && i < count; i++)
        fine = put_values(out, lines[i].values) &&
               sa_text_put(out, text.data + lines[i].text, lines[i].bytes) &&
               sa_text_add(out, "\n");
    fine = fine && put_mappings(file, out);
    sa_buffer_free(&text);
    free(lines);
    return fine;
}
