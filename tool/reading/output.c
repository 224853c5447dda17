/* SPDX-License-Identifier: Apache-2.0 */
/* Writing profiles; see output.h. What is in a file the library's writers say
 * (sampling/export/write.h); zlib makes .pb.gz small. */
#include "tool/reading/output.h"

#include "sampling/export/write.h"
#include "tool/base/io.h"
#include "tool/base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#define DEFLATED_BYTES 65536
#define GZIP_WINDOW    (15 + 16) /* zlib's way to ask for gzip */

/* The format of a file; NULL: none that can be written from outside of the process. */
static const struct sa_profile_format *format_of(const char *path)
{
    const struct sa_profile_format *format = sa_profile_format_of(path);

    return format && !format->own_mappings ? format : NULL;
}

bool sa_output_format(const char *path)
{
    return format_of(path) != NULL;
}

struct output {
    int fd;
    bool gzip;
    z_stream stream;
    uint8_t deflated[DEFLATED_BYTES];
};

/* Passes input on, and at the end what zlib still has. */
static int deflate_some(struct output *o, const void *data, size_t bytes, int flush)
{
    int failed = 0, result;

    o->stream.next_in = (void *)(uintptr_t)data;
    o->stream.avail_in = (unsigned)bytes;
    do {
        o->stream.next_out = o->deflated;
        o->stream.avail_out = DEFLATED_BYTES;
        result = deflate(&o->stream, flush);
        if (result == Z_STREAM_ERROR)
            return -EIO;
        failed = sa_io_write_all(o->fd, o->deflated, DEFLATED_BYTES - o->stream.avail_out);
    } while (!failed && o->stream.avail_out == 0);
    return failed;
}

static int sink(void *arg, const void *data, size_t bytes)
{
    struct output *o = arg;

    return o->gzip ? deflate_some(o, data, bytes, Z_NO_FLUSH) : sa_io_write_all(o->fd, data, bytes);
}

/* What is written: a profile in a format, or bytes. */
struct content {
    const struct sa_profile *profile; /* NULL: bytes */
    const struct sa_profile_format *format;
    const void *data;
    size_t bytes;
    bool gzip;
    unsigned mode; /* of a file; 0: its owner's alone */
};

static int write_profile(struct output *o, const struct content *content)
{
    struct sa_sink *out = sa_sink_open(sink, o, false);
    int failed, closed;

    if (!out)
        return -ENOMEM;
    failed = content->format->write(content->profile, out);
    closed = sa_sink_close(out);
    return failed ? failed : closed;
}

static int write_to(const struct content *content, int fd)
{
    struct output *o = calloc(1, sizeof(*o));
    int failed = -ENOMEM;

    if (!o)
        return -ENOMEM;
    o->fd = fd;
    o->gzip = content->gzip;
    if (!o->gzip || deflateInit2(&o->stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, GZIP_WINDOW, 8,
                                 Z_DEFAULT_STRATEGY) == Z_OK) {
        failed =
            content->profile ? write_profile(o, content) : sink(o, content->data, content->bytes);
        if (o->gzip && !failed)
            failed = deflate_some(o, NULL, 0, Z_FINISH);
        if (o->gzip)
            deflateEnd(&o->stream);
    }
    free(o);
    return failed;
}

/* To a new file beside it, which then takes its name. */
static int write_file(const struct content *content, const char *path)
{
    size_t cap = strlen(path) + 16;
    char *temporary = malloc(cap);
    int fd, failed;

    if (!temporary)
        return -ENOMEM;
    snprintf(temporary, cap, "%s.XXXXXX", path);
    fd = mkostemp(temporary, O_CLOEXEC);
    failed = fd < 0 ? -errno : write_to(content, fd);
    if (!failed && content->mode && fchmod(fd, content->mode) != 0)
        failed = -errno;
    if (fd >= 0 && close(fd) != 0 && !failed)
        failed = -errno;
    if (fd >= 0 && !failed && rename(temporary, path) != 0)
        failed = -errno;
    if (fd >= 0 && failed)
        unlink(temporary);
    free(temporary);
    return failed;
}

static bool output(const struct content *content, const char *path, struct sa_error *e)
{
    int failed = path ? write_file(content, path) : write_to(content, STDOUT_FILENO);

    if (failed)
        sa_error_set(e, SA_EXIT_FAILED, "%s: %s", path ? path : "stdout", strerror(-failed));
    return !failed;
}

bool sa_output_profile(const struct sa_profile *profile, const char *path, struct sa_error *e)
{
    const struct sa_profile_format *format = format_of(path ? path : ".pb.gz");
    struct content content = {.profile = profile, .format = format, .gzip = format->gzip};

    return output(&content, path, e);
}

static int add_to_buffer(void *arg, const void *data, size_t bytes)
{
    return sa_text_put(arg, data, bytes) ? 0 : -ENOMEM;
}

bool sa_output_proto(const struct sa_profile *profile, struct sa_buffer *ret, struct sa_error *e)
{
    struct sa_sink *out = sa_sink_open(add_to_buffer, ret, false);
    int failed = out ? sa_write_proto(profile, out) : -ENOMEM;
    int closed = out ? sa_sink_close(out) : 0;

    if (failed || closed)
        sa_error_set(e, SA_EXIT_FAILED, "the profile: %s", strerror(-(failed ? failed : closed)));
    return !failed && !closed;
}

bool sa_output_text(const void *data, size_t bytes, unsigned mode, const char *path,
                    struct sa_error *e)
{
    struct content content = {.data = data, .bytes = bytes, .mode = mode};

    return output(&content, path, e);
}

bool sa_output_bytes(const void *data, size_t bytes, bool gzip, const char *path,
                     struct sa_error *e)
{
    struct content content = {.data = data, .bytes = bytes, .gzip = gzip};

    return output(&content, path, e);
}
