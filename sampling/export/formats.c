/* SPDX-License-Identifier: Apache-2.0 */
/* The format of a profile's file, by the ending of its name; see write.h. No state. */
#include "sampling/export/write.h"

#include <string.h>

static const struct sa_profile_format formats[] = {
    {".pb.gz", sa_write_proto, .gzip = true},
    {".pb", sa_write_proto},
    {".heap", sa_write_gperftools, .own_mappings = true},
    {".jeprof", sa_write_jeprof, .own_mappings = true},
    {".collapsed", sa_write_collapsed},
    {".folded", sa_write_collapsed},
    {".txt", sa_write_report},
    {".json", sa_write_trace},
};

const struct sa_profile_format *sa_profile_format_of(const char *name)
{
    size_t length = strlen(name);

    for (size_t i = 0; i < sizeof(formats) / sizeof(*formats); i++) {
        size_t n = strlen(formats[i].ending);

        if (length >= n && strcmp(name + length - n, formats[i].ending) == 0)
            return &formats[i];
    }
    return NULL;
}
