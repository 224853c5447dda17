/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of a sample type as text: with its unit, and with the word for what it counts. A profile
 * may be one of CPU time, of locks, or of anything else. */
#ifndef SA_TOOL_FILE_FILE_UNIT_H
#define SA_TOOL_FILE_FILE_UNIT_H

#include "tool/base/human.h"
#include "tool/file/profile_file.h"

/* What a number without its unit is of: "bytes", "blocks", "nanoseconds", "samples". */
const char *sa_file_word(const struct sa_file_type *type);

/* Whether the numbers are of memory: malloc has called for them. */
bool sa_file_is_memory(const struct sa_file_type *type);

/* A number for people, as sa_human_bytes, sa_human_time or sa_human_count have it; also of the
 * file's period, whose type has a unit, too. */
void sa_file_human(const struct sa_file_type *type, double value, char ret[SA_HUMAN_BYTES]);

/* Whether sa_file_human says what a number is of. */
bool sa_file_has_unit(const struct sa_file_type *type);

#endif
