/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Outputs of commands: to a path, or to a descriptor, by the rules of the library
 * (alloc/output/file.h). NULL, "-" and "stdout" are stdout.
 */
#ifndef SA_TOOL_READING_OUTPUT_H
#define SA_TOOL_READING_OUTPUT_H

#include "alloc/os/buffer.h"
#include "sampling/profile/profile.h"
#include "tool/base/error.h"

#include <stdbool.h>

/* Whether the ending of a file's name is that of a format, or it needs none. */
bool sa_output_format(const char *path);

/*
 * Writes a profile to a file, in the format of its ending; a file is there as a whole or not at
 * all. What is no file has no ending: it gets a .pb.gz.
 */
bool sa_output_profile(const struct sa_profile *profile, const char *path, struct sa_error *e);

/* The same as a .pb, in memory. */
bool sa_output_proto(const struct sa_profile *profile, struct sa_buffer *ret, struct sa_error *e);

/* Writes text the same way, to a file with these permissions. */
bool sa_output_text(const void *data, size_t bytes, unsigned mode, const char *path,
                    struct sa_error *e);

/* Writes bytes the same way, compressed if asked to. */
bool sa_output_bytes(const void *data, size_t bytes, bool gzip, const char *path,
                     struct sa_error *e);

#endif
