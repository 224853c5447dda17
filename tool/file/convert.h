/* SPDX-License-Identifier: Apache-2.0 */
/* Profile files in other formats. */
#ifndef SA_TOOL_FILE_CONVERT_H
#define SA_TOOL_FILE_CONVERT_H

#include "tool/file/profile_file.h"

/* A format, by the ending of a file's name. */
struct sa_file_format {
    const char *ending;
    bool gzip;
    bool one_metric; /* the file has a single metric of the profile */
    bool (*put)(const struct sa_profile_file *file, uint32_t metric, struct sa_buffer *out);
};

/* The format of a name's ending, with or without its dot; NULL: none. */
const struct sa_file_format *sa_file_format_of(const char *name);

/* Put a profile in a format. False: there is no memory. */
bool sa_convert_proto(const struct sa_profile_file *file, uint32_t metric, struct sa_buffer *out);
bool sa_convert_collapsed(const struct sa_profile_file *file, uint32_t metric,
                          struct sa_buffer *out);
bool sa_convert_heap(const struct sa_profile_file *file, uint32_t metric, struct sa_buffer *out);

#endif
