/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers frames and places, and sorts rows; see flame_frames.h. A slot is a line of a location, a
 * location without lines, or that of samples without a stack. Slots where all is equal are one
 * place; places that differ in lines only have one frame.
 */
#include "tool/page/flame_frames.h"

#include "tool/file/file_interval.h"

#include <stdlib.h>
#include <string.h>

#define NO_STACK "[no stack]"

struct slot {
    const char *name, *library, *file;
    int64_t line;
    uint32_t number; /* lines first, then locations, then that of no stack */
};

/* How many slots there are at most. */
static size_t slot_count(const struct sa_profile_file *file)
{
    return (size_t)file->line_count + file->location_count + 1;
}

static int text_order(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int frame_order(const struct slot *x, const struct slot *y)
{
    int order = strcmp(x->name, y->name);

    if (!order)
        order = strcmp(x->library, y->library);
    return order ? order : strcmp(x->file, y->file);
}

static int slot_order(const void *a, const void *b)
{
    const struct slot *x = a, *y = b;
    int order = frame_order(x, y);

    return order ? order : (x->line > y->line) - (x->line < y->line);
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

static size_t list_slots(const struct sa_profile_file *file, struct slot *slots)
{
    size_t count = 0;

    for (uint32_t i = 0; i < file->location_count; i++) {
        const struct sa_file_location *l = &file->locations[i];
        const char *library = sa_file_library_name(file, l);

        for (uint32_t k = l->line; k < l->line + l->line_count; k++) {
            const struct sa_file_function *f = &file->functions[file->lines[k]];

            slots[count++] = (struct slot){f->name, library, f->file, file->line_numbers[k], k};
        }
        if (!l->line_count)
            slots[count++] =
                (struct slot){sa_file_location_name(file, l), library, "", 0, file->line_count + i};
    }
    slots[count++] =
        (struct slot){NO_STACK, NO_STACK, "", 0, file->line_count + file->location_count};
    qsort(slots, count, sizeof(*slots), slot_order);
    return count;
}

/* Lists the libraries and the source files. */
static void list_texts(const struct sa_profile_file *file, struct sa_flame_frames *ret)
{
    for (uint32_t i = 0; i < file->location_count; i++)
        ret->libraries[i] = sa_file_library_name(file, &file->locations[i]);
    ret->libraries[file->location_count] = NO_STACK;
    ret->library_count = unique(ret->libraries, (size_t)file->location_count + 1);
    for (uint32_t i = 0; i < file->function_count; i++)
        ret->files[i] = file->functions[i].file;
    ret->files[file->function_count] = "";
    ret->file_count = unique(ret->files, (size_t)file->function_count + 1);
}

/* Numbers frames and places. place_of: the place of each slot. */
static bool number_places(const struct sa_profile_file *file, struct sa_flame_frames *ret,
                          uint32_t *place_of)
{
    size_t most = slot_count(file), count;
    struct slot *slots = calloc(most, sizeof(*slots));

    ret->names = calloc(most, sizeof(*ret->names));
    ret->libraries = calloc((size_t)file->location_count + 1, sizeof(*ret->libraries));
    ret->files = calloc((size_t)file->function_count + 1, sizeof(*ret->files));
    ret->frames = calloc(most, sizeof(*ret->frames));
    ret->places = calloc(most, sizeof(*ret->places));
    if (!slots || !ret->names || !ret->libraries || !ret->files || !ret->frames || !ret->places) {
        free(slots);
        return false;
    }
    list_texts(file, ret);
    count = list_slots(file, slots);
    for (size_t i = 0; i < count; i++) {
        const struct slot *s = &slots[i];

        if (!i || strcmp(s->name, s[-1].name) != 0)
            ret->names[ret->name_count++] = s->name;
        if (!i || frame_order(s, s - 1) != 0)
            ret->frames[ret->frame_count++] = (struct sa_flame_frame){
                ret->name_count - 1, index_of(ret->libraries, ret->library_count, s->library),
                index_of(ret->files, ret->file_count, s->file)};
        if (!i || slot_order(s, s - 1) != 0)
            ret->places[ret->place_count++] =
                (struct sa_flame_place){ret->frame_count - 1, s->line};
        place_of[s->number] = ret->place_count - 1;
    }
    free(slots);
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

static struct sa_flame_blocks blocks_of(const struct sa_profile_file *file, uint32_t sample)
{
    struct sa_flame_blocks blocks = {.size = sa_file_number(file, &file->samples[sample], "bytes")};
    struct sa_group group;

    for (uint32_t m = 0; m < file->type_count; m++)
        if (sa_file_group(file, m, sample, &group)) {
            blocks.p = group.p;
            break;
        }
    return blocks;
}

/* Lines of a location are innermost first. */
static void list_rows(const struct sa_profile_file *file, const uint32_t *place_of,
                      struct sa_flame_frames *ret)
{
    uint32_t at = 0;

    for (uint32_t i = 0; i < file->sample_count; i++) {
        const struct sa_file_sample *s = &file->samples[i];
        struct sa_flame_row *row = &ret->rows[ret->row_count];
        const char *thread = sa_file_text(file, s, "thread");

        if (!has_value(file, s))
            continue;
        *row = (struct sa_flame_row){
            .sample = i, .stack = at, .thread = SA_FILE_NONE, .blocks = blocks_of(file, i)};
        for (uint32_t k = s->depth; k-- > 0;) {
            uint32_t location = file->frames[s->frame + k];
            const struct sa_file_location *l = &file->locations[location];

            for (uint32_t n = l->line_count; n-- > 0;)
                ret->stacks[at++] = place_of[l->line + n];
            if (!l->line_count)
                ret->stacks[at++] = place_of[file->line_count + location];
        }
        if (!s->depth)
            ret->stacks[at++] = place_of[slot_count(file) - 1];
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
    uint32_t *place_of;
    bool fine;

    memset(ret, 0, sizeof(*ret));
    if (frames > SA_FLAME_FRAMES_MAX) {
        sa_error_set(e, SA_EXIT_FAILED, "its stacks have %llu frames; a page has at most %u",
                     (unsigned long long)frames, SA_FLAME_FRAMES_MAX);
        return false;
    }
    place_of = calloc(slot_count(file), sizeof(*place_of));
    ret->threads = calloc((size_t)file->sample_count + 1, sizeof(*ret->threads));
    ret->rows = calloc((size_t)file->sample_count + 1, sizeof(*ret->rows));
    ret->stacks = calloc(frames + 1, sizeof(*ret->stacks));
    fine =
        place_of && ret->threads && ret->rows && ret->stacks && number_places(file, ret, place_of);
    if (fine) {
        list_threads(file, ret);
        list_rows(file, place_of, ret);
    } else {
        sa_flame_frames_free(ret);
        sa_error_set(e, SA_EXIT_FAILED, "there is no memory for the page");
    }
    free(place_of);
    return fine;
}

void sa_flame_frames_free(struct sa_flame_frames *frames)
{
    free(frames->names);
    free(frames->libraries);
    free(frames->files);
    free(frames->threads);
    free(frames->frames);
    free(frames->places);
    free(frames->rows);
    free(frames->stacks);
    memset(frames, 0, sizeof(*frames));
}
