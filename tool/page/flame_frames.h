/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The samples of a profile file as rows of a page: frames, names, libraries and threads are
 * numbered, and the rows are sorted by their stacks, so that equal beginnings are neighbours.
 */
#ifndef SA_TOOL_PAGE_FLAME_FRAMES_H
#define SA_TOOL_PAGE_FLAME_FRAMES_H

#include "tool/file/profile_file.h"

#define SA_FLAME_FRAMES_MAX (1u << 24) /* of all stacks; more is nothing for a browser */

/* A function of a library, in its source file; files[0] is "", for those that are not known. */
struct sa_flame_frame {
    uint32_t name, library, file;
};

/* A line of it; 0: not known. */
struct sa_flame_place {
    uint32_t frame;
    int64_t line;
};

/* Blocks of one size and one probability of a sample. */
struct sa_flame_blocks {
    int64_t size; /* 0: not known */
    double p;     /* 0: not known */
};

/* A sample of the file that has a value. */
struct sa_flame_row {
    uint32_t sample;
    uint32_t stack, depth; /* a range of stacks, root first, inlined functions as places */
    uint32_t thread;       /* SA_FILE_NONE: not recorded */
    struct sa_flame_blocks blocks;
};

struct sa_flame_frames {
    const char **names, **libraries, **files, **threads; /* sorted; as the file has them */
    struct sa_flame_frame *frames;
    struct sa_flame_place *places;
    struct sa_flame_row *rows;
    uint32_t *stacks; /* places */
    uint32_t name_count, library_count, file_count, thread_count;
    uint32_t frame_count, place_count, row_count;
};

/* False: *e says why, and there is nothing to free. */
bool sa_flame_frames_make(const struct sa_profile_file *file, struct sa_flame_frames *ret,
                          struct sa_error *e);
void sa_flame_frames_free(struct sa_flame_frames *frames);

#endif
