/* SPDX-License-Identifier: Apache-2.0 */
/* Files that are neither profile.proto nor core, but known by how they begin: packed files, and
 * profiles of other tools. */
#ifndef SA_TOOL_BASE_FOREIGN_FILE_H
#define SA_TOOL_BASE_FOREIGN_FILE_H

#include "tool/base/error.h"

#include <stdbool.h>
#include <stddef.h>

#define SA_FOREIGN_FILE_BYTES 4096 /* of the beginning that are looked at, at most */

/* Sets an error that says what a file is and what makes it readable, if its first bytes tell. */
bool sa_foreign_file_tell(const char *path, const void *first, size_t bytes, struct sa_error *e);

/* The same of gzip, which profiles may be, but cores may not. */
bool sa_foreign_file_tell_gzip(const char *path, const void *first, size_t bytes,
                               struct sa_error *e);

#endif
