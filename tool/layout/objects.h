/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The programs and libraries that a target has loaded, found in its memory by their ELF headers:
 * the same that the loader of the target would tell about them, but nobody asks that. And salloc's
 * notes in them (alloc/api/layout_table.c).
 */
#ifndef SA_TOOL_LAYOUT_OBJECTS_H
#define SA_TOOL_LAYOUT_OBJECTS_H

#include "sampling/symbolize/mappings.h"
#include "tool/target/target.h"

#define SA_NOTES_MAX 8 /* copies of the library in one process */

struct sa_objects {
    struct sa_mappings mappings;  /* the program first */
    uint64_t notes[SA_NOTES_MAX]; /* addresses of what the notes say */
    unsigned note_count;
};

/* False: no memory. */
bool sa_objects_collect(struct sa_target *t, struct sa_objects *ret, struct sa_error *e);
/* Collects salloc's notes alone: all that a reader of numbers needs. */
void sa_objects_collect_notes(struct sa_target *t, struct sa_objects *ret);
void sa_objects_free(struct sa_objects *o);

/* The path of a program or library that has code in the target, but not its first page, as in a
 * core that lacks it; NULL: there is none. */
const char *sa_objects_headless(struct sa_target *t);

/* A copy of the mappings, for who frees them: 0 or -ENOMEM. */
int sa_objects_copy(const struct sa_mappings *from, struct sa_mappings *ret);

#endif
