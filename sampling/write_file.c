/* SPDX-License-Identifier: Apache-2.0 */
/* A profile into a file whose ending says the format; see write.h. No state. */
#include "sampling/write.h"

#include "alloc/base/bits.h"
#include "alloc/os/file.h"
#include "alloc/os/vm.h"

#include <errno.h>
#include <string.h>

struct format {
    const char *ending;
    int (*write)(const struct sa_profile *profile, struct sa_out *out);
    bool gzip;
};

static const struct format formats[] = {
    {".pb.gz", sa_write_proto, true},          {".pb", sa_write_proto, false},
    {".heap", sa_write_gperftools, false},     {".jeprof", sa_write_jeprof, false},
    {".collapsed", sa_write_collapsed, false}, {".folded", sa_write_collapsed, false},
    {".txt", sa_write_report, false},
};

static const struct format *format_of(const char *pattern)
{
    size_t length = strlen(pattern);

    for (size_t i = 0; i < sizeof(formats) / sizeof(*formats); i++) {
        size_t n = strlen(formats[i].ending);

        if (length >= n && strcmp(pattern + length - n, formats[i].ending) == 0)
            return &formats[i];
    }
    return NULL;
}

int sa_profile_check_path(const char *pattern)
{
    return format_of(pattern) ? sa_file_check_pattern(pattern) : -EINVAL;
}

static int sink(void *file, const void *data, size_t bytes)
{
    return sa_file_write(file, data, bytes);
}

static int write_into(const struct sa_profile *profile, const struct format *format,
                      struct sa_file *file)
{
    struct sa_out *out = sa_out_open(sink, file, format->gzip);
    int failed, closed;

    if (!out)
        return -ENOMEM;
    failed = format->write(profile, out);
    closed = sa_out_close(out);
    return failed ? failed : closed;
}

int sa_profile_write_file(const struct sa_profile *profile, const char *pattern)
{
    /* The file and its path are too large for the stack of every thread. */
    size_t bytes = sa_align_up(sizeof(struct sa_file) + SA_FILE_PATH_MAX, 65536);
    struct sa_file *file;
    char *path;
    int failed = sa_profile_check_path(pattern);

    if (failed)
        return failed;
    file = sa_vm_map(NULL, bytes, "salloc file");
    if (!file)
        return -ENOMEM;
    path = (char *)(file + 1);
    failed = sa_file_expand(pattern, path, SA_FILE_PATH_MAX);
    if (!failed)
        failed = sa_file_begin(file, path);
    if (!failed) {
        failed = write_into(profile, format_of(pattern), file);
        if (failed)
            sa_file_abandon(file);
        else
            failed = sa_file_commit(file);
    }
    sa_vm_unmap(file, bytes);
    return failed;
}
