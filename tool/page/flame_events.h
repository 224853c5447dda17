/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An event trace (doc/events.md) as a time line: what the trace saw allocated and not freed, after
 * each event, or after as many of them as a page has moments.
 */
#ifndef SA_TOOL_PAGE_FLAME_EVENTS_H
#define SA_TOOL_PAGE_FLAME_EVENTS_H

#include "tool/reading/moments.h"

/* Whether a file is an event trace. */
bool sa_flame_is_events(const struct sa_profile_file *file);

/* A time line, and the profile of its rows. */
struct sa_flame_events {
    struct sa_moments moments;
    struct sa_profile_file rows; /* borrows from the trace */
    struct sa_file_type types[2];
};

/* False: *e says why, and there is nothing to free. */
bool sa_flame_events_make(struct sa_flame_events *t, const struct sa_profile_file *file,
                          struct sa_error *e);
void sa_flame_events_free(struct sa_flame_events *t);

#endif
