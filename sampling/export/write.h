/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes profiles as files. doc/profiles.md describes the formats. The functions ask the loader and
 * read files, so the caller holds no lock of the allocator and is not inside the fork gate. They
 * need 16 KiB of stack, and several threads may write at a time.
 */
#ifndef SA_SAMPLING_EXPORT_WRITE_H
#define SA_SAMPLING_EXPORT_WRITE_H

#include "alloc/output/destination.h"
#include "sampling/export/sink.h"
#include "sampling/profile/profile.h"

/* Put a whole file in one format. Return 0, -ENOMEM, or -EINVAL. sa_sink_close returns errors of
 * the output. */
int sa_write_proto(const struct sa_profile *profile, struct sa_sink *out);
int sa_write_gperftools(const struct sa_profile *profile, struct sa_sink *out);
int sa_write_jeprof(const struct sa_profile *profile, struct sa_sink *out);
int sa_write_collapsed(const struct sa_profile *profile, struct sa_sink *out);
int sa_write_report(const struct sa_profile *profile, struct sa_sink *out);
int sa_write_trace(const struct sa_profile *profile, struct sa_sink *out); /* EVENTS, or -EINVAL */

struct sa_profile_format {
    const char *ending; /* of the names of such files */
    int (*write)(const struct sa_profile *profile, struct sa_sink *out);
    bool gzip;
    bool own_mappings; /* the file has the mappings of the process that writes it */
};

/* Returns the format that the ending of a name selects, or NULL. */
const struct sa_profile_format *sa_profile_format_of(const char *name);

/* Does what salloc_profile_write_file promises (include/salloc/profile.h), but returns 0 or a
 * negative error number. */
int sa_profile_write_file(const struct sa_profile *profile, const char *pattern);

/* Write to an open descriptor, and to a function, in the format whose ending is `format`. What the
 * function returns ends the writing, and is returned, unless it is 0. */
int sa_profile_write_fd(const struct sa_profile *profile, int fd, const char *format);
int sa_profile_write(const struct sa_profile *profile, const char *format,
                     int (*write)(void *arg, const void *data, size_t bytes), void *arg);

/* As sa_profile_write_file, to a destination that was made before. */
int sa_profile_write_to(const struct sa_profile *profile, const struct sa_destination *d);

/* Whether the format that a pattern's ending selects is one for profiles of a type. Requires that
 * sa_profile_check_path has returned 0. */
bool sa_profile_path_fits(const char *pattern, enum salloc_profile_type type);

/* Returns 0, or -EINVAL for a pattern whose ending or placeholders are not known. */
int sa_profile_check_path(const char *pattern);

#endif
