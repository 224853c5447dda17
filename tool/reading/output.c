/* SPDX-License-Identifier: Apache-2.0 */
/* Writing profiles; see output.h. Where a file goes the library says (alloc/output/file.h), and
 * what is in it the library's writers (sampling/export/write.h); zlib makes .pb.gz small. */
#include "tool/reading/output.h"

#include "alloc/base/error_words.h"
#include "alloc/output/destination.h"
#include "sampling/export/write.h"
#include "tool/base/text.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

#define DEFLATED_BYTES 65536
#define GZIP_WINDOW    (15 + 16) /* zlib's way to ask for gzip */

#define STDOUT "stdout"

/* What stands for stdout. */
static const char *name_of(const char *path)
{
    return !path || strcmp(path, "-") == 0 ? STDOUT : path;
}

/* The format of a file; NULL: none that can be written from outside of the process. What is no file
 * (stdout, a device, a pipe) needs no ending. */
static const struct sa_profile_format *format_of(const char *path)
{
    const struct sa_profile_format *format = sa_profile_format_of(path);

    if (!format && sa_destination_is_direct(name_of(path)))
        format = sa_profile_format_of(".pb.gz");
    return format && !format->own_mappings ? format : NULL;
}

bool sa_output_format(const char *path)
{
    return format_of(path) != NULL;
}

struct output {
    struct sa_file file;
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
        failed = sa_file_write(&o->file, o->deflated, DEFLATED_BYTES - o->stream.avail_out);
    } while (!failed && o->stream.avail_out == 0);
    return failed;
}

static int sink(void *arg, const void *data, size_t bytes)
{
    struct output *o = arg;

    return o->gzip ? deflate_some(o, data, bytes, Z_NO_FLUSH)
                   : sa_file_write(&o->file, data, bytes);
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

static int write_content(struct output *o, const struct content *content)
{
    int failed;

    o->gzip = content->gzip;
    if (o->gzip && deflateInit2(&o->stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, GZIP_WINDOW, 8,
                                Z_DEFAULT_STRATEGY) != Z_OK)
        return -ENOMEM;
    failed = content->profile ? write_profile(o, content) : sink(o, content->data, content->bytes);
    if (o->gzip && !failed)
        failed = deflate_some(o, NULL, 0, Z_FINISH);
    if (o->gzip)
        deflateEnd(&o->stream);
    return failed;
}

/* Writes the content to the place of that name, complete or not at all. */
static int write_to(struct output *o, const struct content *content, const char *name)
{
    int failed = sa_destination_open(&o->file, name, 0600);

    if (failed)
        return failed;
    failed = write_content(o, content);
    if (!failed && content->mode && !o->file.direct && fchmod(o->file.fd, content->mode) != 0)
        failed = -errno;
    if (failed)
        sa_file_abandon(&o->file);
    else
        failed = sa_file_commit(&o->file);
    if (failed == -EPIPE && strcmp(name, STDOUT) == 0)
        raise(SIGPIPE); /* as of any program in a pipeline */
    return failed;
}

static bool output(const struct content *content, const char *path, struct sa_error *e)
{
    struct output *o = calloc(1, sizeof(*o));
    int failed = o ? write_to(o, content, name_of(path)) : -ENOMEM;
    char words[80];
    struct sa_fmt f;

    free(o);
    sa_fmt_init(&f, words, sizeof(words));
    sa_error_words_add(&f, -failed);
    if (failed)
        sa_error_set(e, SA_EXIT_FAILED, "%s: %s", name_of(path), words);
    return !failed;
}

bool sa_output_profile(const struct sa_profile *profile, const char *path, struct sa_error *e)
{
    const struct sa_profile_format *format = format_of(path ? path : STDOUT);
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
