/* SPDX-License-Identifier: Apache-2.0 */
/* Profiles into files, or to stdout. */
#ifndef SA_TOOL_READING_OUTPUT_H
#define SA_TOOL_READING_OUTPUT_H

#include "alloc/os/buffer.h"
#include "sampling/profile/profile.h"
#include "tool/base/error.h"

#include <stdbool.h>

/* Whether the ending of a file's name is that of a format. */
bool sa_output_format(const char *path);

/*
 * Writes a profile to a file, in the format of its ending; a file is there as a whole or not at
 * all. path NULL: a .pb.gz to stdout.
 */
bool sa_output_profile(const struct sa_profile *profile, const char *path, struct sa_error *e);

/* The same as a .pb, in memory. */
bool sa_output_proto(const struct sa_profile *profile, struct sa_buffer *ret, struct sa_error *e);

/* Writes text the same way, to a file with these permissions. path NULL: to stdout. */
bool sa_output_text(const void *data, size_t bytes, unsigned mode, const char *path,
                    struct sa_error *e);

/* Writes bytes the same way, compressed if asked to. path NULL: to stdout. */
bool sa_output_bytes(const void *data, size_t bytes, bool gzip, const char *path,
                     struct sa_error *e);

#endif
