/* SPDX-License-Identifier: Apache-2.0 */
/* Profiles to look at, wherever they are. */
#ifndef SA_TOOL_READING_INPUT_H
#define SA_TOOL_READING_INPUT_H

#include "tool/file/profile_file.h"
#include "tool/reading/reading.h"

/*
 * Reads a profile: of a process, of a core, or of a file. With source lines and inlined
 * functions, if the build can find them (add_lines.h). What was left out goes to stderr. False: *e
 * says why, and there is nothing to free.
 */
bool sa_input_read(struct sa_profile_file *ret, struct sa_source source, struct sa_error *e);

/* The same of a process or core that is open. */
bool sa_input_read_target(struct sa_profile_file *ret, struct sa_reading *r, struct sa_error *e);

/* Adds lines as sa_input_read does. root: as for sa_add_lines. False: *e says why, and the profile
 * is freed. */
bool sa_input_add_lines(struct sa_profile_file *file, const char *root, struct sa_error *e);

#endif
