/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which samples two profile files have in common: those of one number and time (profile_file.h)
 * whose stack, size and thread are the same. A file that does not list its samples has none in
 * common with any.
 */
#ifndef SA_TOOL_DIFF_DIFF_COMMON_H
#define SA_TOOL_DIFF_DIFF_COMMON_H

#include "tool/file/profile_file.h"

struct sa_diff_common {
    uint64_t *before, *after; /* of each row of the files: samples that the other one has too */
    uint64_t samples;         /* in all */
    bool known;               /* both files list their samples */
};

/* False: there is no memory. */
bool sa_diff_common(const struct sa_profile_file *before, const struct sa_profile_file *after,
                    struct sa_diff_common *ret);
void sa_diff_common_free(struct sa_diff_common *c);

#endif
