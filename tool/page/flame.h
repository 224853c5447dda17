/* SPDX-License-Identifier: Apache-2.0 */
/* A profile file as a page of HTML, which shows it without a network and without this command. */
#ifndef SA_TOOL_PAGE_FLAME_H
#define SA_TOOL_PAGE_FLAME_H

#include "tool/page/flame_diff.h"
#include "tool/reading/moments.h"

/* Puts the page. metric: what it shows first. title: the file's name. False: *e says why. */
bool sa_flame_put(const struct sa_profile_file *file, uint32_t metric, const char *title,
                  struct sa_buffer *out, struct sa_error *e);

/* The same of two profiles, compared; titles of both. */
bool sa_flame_put_diff(const struct sa_flame_diff *diff, uint32_t metric, const char *before,
                       const char *after, struct sa_buffer *out, struct sa_error *e);

/* The same of a time line, and the profile of its rows. events: it is that of an event trace. */
bool sa_flame_put_line(const struct sa_profile_file *rows, const struct sa_moments *moments,
                       bool events, uint32_t metric, const char *title, struct sa_buffer *out,
                       struct sa_error *e);

/* Compares two profiles, and writes the page as sa_flame_write does. */
bool sa_flame_write_diff(const struct sa_profile_file *before, const struct sa_profile_file *after,
                         const char *metric, const char *const titles[2], const char *page,
                         struct sa_error *e);

/* Writes the page of a profile, by the rules of output.h. metric: NULL: the one that the profile
 * shows first. */
bool sa_flame_write(const struct sa_profile_file *file, const char *metric, const char *title,
                    const char *page, struct sa_error *e);

/* Writes a page with a time line. root: as for sa_moments_file. */
bool sa_flame_write_moments(struct sa_moments *m, const char *root, const char *metric,
                            const char *title, const char *page, struct sa_error *e);

#endif
