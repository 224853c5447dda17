/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers frames and sorts rows; see flame_frames.h. A place is a line of a location, a location
 * without lines, or that of samples without a stack. Places of equal name and library are one
 * frame.
 */
#include "tool/flame_frames.h"

#include <stdlib.h>
#include <string.h>

#define NO_STACK "[no stack]"

struct place {
    const char *name, *library;
    uint32_t number; /* lines first, then locations, then that of no stack */
};

/* How many places there are at most. */
static size_t place_count(const struct sa_profile_file *file)
{
    return (size_t)file->line_count + file->location_count + 1;
}

static int text_order(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int place_order(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    int order = strcmp(x->name, y->name);

    return order ? order : strcmp(x->library, y->library);
}

static int row_order(const void *a, const void *b, void *arg)
{
    const struct sa_flame_row *x = a, *y = b;
    const uint32_t *stacks = arg, *s = stacks + x->stack, *t = stacks + y->stack;

    for (uint32_t i = 0; i < x->depth && i < y->depth; i++)
        if (s[i] != t[i])
            return s[i] < t[i] ? -1 : 1;
    if (x->depth != y->depth)
        return x->depth < y->depth ? -1 : 1;
    return (x->sample > y->sample) - (x->sample < y->sample);
}

/* Sorts texts and leaves each once. */
static uint32_t unique(const char **texts, size_t count)
{
    uint32_t kept = 0;

    qsort(texts, count, sizeof(*texts), text_order);
    for (size_t i = 0; i < count; i++)
        if (!kept || strcmp(texts[kept - 1], texts[i]) != 0)
            texts[kept++] = texts[i];
    return kept;
}

/* Where a text is in such a list. */
static uint32_t index_of(const char *const *texts, uint32_t count, const char *text)
{
    const char *const *at = bsearch(&text, texts, count, sizeof(*texts), text_order);

    return (uint32_t)(at - texts);
}

static const char *library_of(const struct sa_profile_file *file, const struct sa_file_location *l)
{
    return l->mapping == SA_FILE_NONE ? "[unknown]" : file->mappings[l->mapping].file;
}

static size_t list_places(const struct sa_profile_file *file, struct place *places)
{
    size_t count = 0;

    for (uint32_t i = 0; i < file->location_count; i++) {
        const struct sa_file_location *l = &file->locations[i];
        const char *library = library_of(file, l);

        for (uint32_t k = 0; k < l->line_count; k++)
            places[count++] = (struct place){file->functions[file->lines[l->line + k]].name,
                                             library, l->line + k};
        if (!l->line_count)
            places[count++] =
                (struct place){sa_file_location_name(file, l), library, file->line_count + i};
    }
    places[count++] = (struct place){NO_STACK, NO_STACK, file->line_count + file->location_count};
    qsort(places, count, sizeof(*places), place_order);
    return count;
}

/* Numbers the frames. frame_of: the frame of each place. */
static bool number_frames(const struct sa_profile_file *file, struct sa_flame_frames *ret,
                          uint32_t *frame_of)
{
    size_t most = place_count(file), count;
    struct place *places = calloc(most, sizeof(*places));

    ret->names = calloc(most, sizeof(*ret->names));
    ret->libraries = calloc((size_t)file->location_count + 1, sizeof(*ret->libraries));
    ret->frames = calloc(most, sizeof(*ret->frames));
    if (!places || !ret->names || !ret->libraries || !ret->frames) {
        free(places);
        return false;
    }
    for (uint32_t i = 0; i < file->location_count; i++)
        ret->libraries[i] = library_of(file, &file->locations[i]);
    ret->libraries[file->location_count] = NO_STACK;
    ret->library_count = unique(ret->libraries, (size_t)file->location_count + 1);
    count = list_places(file, places);
    for (size_t i = 0; i < count; i++) {
        if (!i || strcmp(places[i].name, places[i - 1].name) != 0)
            ret->names[ret->name_count++] = places[i].name;
        if (!i || place_order(&places[i], &places[i - 1]) != 0)
            ret->frames[ret->frame_count++] = (struct sa_flame_frame){
                ret->name_count - 1,
                index_of(ret->libraries, ret->library_count, places[i].library)};
        frame_of[places[i].number] = ret->frame_count - 1;
    }
    free(places);
    return true;
}

static bool has_value(const struct sa_profile_file *file, const struct sa_file_sample *s)
{
    for (uint32_t m = 0; m < file->type_count; m++)
        if (file->values[s->value + m])
            return true;
    return false;
}

/* Frames of all stacks at most, with inlined ones. */
static uint64_t count_frames(const struct sa_profile_file *file)
{
    uint64_t count = file->sample_count; /* those without a stack */

    for (uint32_t i = 0; i < file->frame_count; i++) {
        uint32_t lines = file->locations[file->frames[i]].line_count;

        count += lines ? lines : 1;
    }
    return count;
}

/* Lines of a location are innermost first. */
static void list_rows(const struct sa_profile_file *file, const uint32_t *frame_of,
                      struct sa_flame_frames *ret)
{
    uint32_t at = 0;

    for (uint32_t i = 0; i < file->sample_count; i++) {
        const struct sa_file_sample *s = &file->samples[i];
        struct sa_flame_row *row = &ret->rows[ret->row_count];
        const char *thread = sa_file_text(file, s, "thread");

        if (!has_value(file, s))
            continue;
        *row = (struct sa_flame_row){.sample = i,
                                     .stack = at,
                                     .thread = SA_FILE_NONE,
                                     .size = sa_file_number(file, s, "bytes")};
        for (uint32_t k = s->depth; k-- > 0;) {
            uint32_t location = file->frames[s->frame + k];
            const struct sa_file_location *l = &file->locations[location];

            for (uint32_t n = l->line_count; n-- > 0;)
                ret->stacks[at++] = frame_of[l->line + n];
            if (!l->line_count)
                ret->stacks[at++] = frame_of[file->line_count + location];
        }
        if (!s->depth)
            ret->stacks[at++] = frame_of[place_count(file) - 1];
        row->depth = at - row->stack;
        if (thread)
            row->thread = index_of(ret->threads, ret->thread_count, thread);
        ret->row_count++;
    }
    qsort_r(ret->rows, ret->row_count, sizeof(*ret->rows), row_order, ret->stacks);
}

static void list_threads(const struct sa_profile_file *file, struct sa_flame_frames *ret)
{
    size_t count = 0;

    for (uint32_t i = 0; i < file->sample_count; i++) {
        const char *thread = sa_file_text(file, &file->samples[i], "thread");

        if (thread)
            ret->threads[count++] = thread;
    }
    ret->thread_count = unique(ret->threads, count);
}

bool sa_flame_frames_make(const struct sa_profile_file *file, struct sa_flame_frames *ret,
                          struct sa_error *e)
{
    uint64_t frames = count_frames(file);
    uint32_t *frame_of;
    bool fine;

    memset(ret, 0, sizeof(*ret));
    if (frames > SA_FLAME_FRAMES_MAX) {
        sa_error_set(e, SA_EXIT_FAILED, "its stacks have %llu frames; a page has at most %u",
                     (unsigned long long)frames, SA_FLAME_FRAMES_MAX);
        return false;
    }
    frame_of = calloc(place_count(file), sizeof(*frame_of));
    ret->threads = calloc((size_t)file->sample_count + 1, sizeof(*ret->threads));
    ret->rows = calloc((size_t)file->sample_count + 1, sizeof(*ret->rows));
    ret->stacks = calloc(frames + 1, sizeof(*ret->stacks));
    fine =
        frame_of && ret->threads && ret->rows && ret->stacks && number_frames(file, ret, frame_of);
    if (fine) {
        list_threads(file, ret);
        list_rows(file, frame_of, ret);
    } else {
        sa_flame_frames_free(ret);
        sa_error_set(e, SA_EXIT_FAILED, "there is no memory for the page");
    }
    free(frame_of);
    return fine;
}

void sa_flame_frames_free(struct sa_flame_frames *frames)
{
    free(frames->names);
    free(frames->libraries);
    free(frames->threads);
    free(frames->frames);
    free(frames->rows);
    free(frames->stacks);
    memset(frames, 0, sizeof(*frames));
}
