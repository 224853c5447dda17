/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profiles as files. doc/profiles.md says what stands in each format. All of this asks the loader
 * and reads files: it is only called outside of the allocator, with no lock of ours held. Needs 16
 * KiB of stack.
 */
#ifndef SA_SAMPLING_EXPORT_WRITE_H
#define SA_SAMPLING_EXPORT_WRITE_H

#include "alloc/os/destination.h"
#include "sampling/export/sink.h"
#include "sampling/profile/profile.h"

/* Each puts a whole file: 0 or -ENOMEM. What the output met is the output's (sa_sink_close). */
int sa_write_proto(const struct sa_profile *profile, struct sa_sink *out);
int sa_write_gperftools(const struct sa_profile *profile, struct sa_sink *out);
int sa_write_jeprof(const struct sa_profile *profile, struct sa_sink *out);
int sa_write_collapsed(const struct sa_profile *profile, struct sa_sink *out);
int sa_write_report(const struct sa_profile *profile, struct sa_sink *out);

/* As salloc_profile_write_file, but returns 0 or a negative errno. */
int sa_profile_write_file(const struct sa_profile *profile, const char *pattern);

/* The same to a destination that was kept. */
int sa_profile_write_to(const struct sa_profile *profile, const struct sa_destination *d);

/* -EINVAL for a pattern whose ending or placeholders sa_profile_write_file does not know. */
int sa_profile_check_path(const char *pattern);

#endif
