/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a profile to a file, in the format that the ending of its name selects (write.h). */
#include "sampling/export/write.h"

#include "alloc/base/bits.h"
#include "alloc/output/destination.h"
#include "alloc/output/file.h"
#include "alloc/os/vm.h"

#include <errno.h>
#include <string.h>

/* Returns the format of a pattern, or NULL. What is no file (a descriptor, a device, a pipe or a
 * socket) receives the table if it has no ending. */
static const struct sa_profile_format *format_of(const char *pattern)
{
    const struct sa_profile_format *found;
    const char *ending;
    int number = sa_destination_number(pattern, &ending);

    found = sa_profile_format_of(number >= 0 ? ending ? ending : ".txt" : pattern);
    return found || number >= 0 || !sa_destination_is_direct(pattern)
               ? found
               : sa_profile_format_of(".txt");
}

int sa_profile_check_path(const char *pattern)
{
    return format_of(pattern) ? sa_file_check_pattern(pattern) : -EINVAL;
}

bool sa_profile_path_fits(const char *pattern, enum salloc_profile_type type)
{
    return format_of(pattern)->write != sa_write_trace || type == SALLOC_PROFILE_EVENTS;
}

static int sink(void *file, const void *data, size_t bytes)
{
    return sa_file_write(file, data, bytes);
}

/* Writes a profile to a function. Returns 0, a negative error number, or what the function has
 * returned. */
static int write_into(const struct sa_profile *profile, const struct sa_profile_format *format,
                      int (*to)(void *, const void *, size_t), void *arg)
{
    struct sa_sink *out = sa_sink_open(to, arg, format->gzip);
    int failed, closed;

    if (!out)
        return -ENOMEM;
    failed = format->write(profile, out);
    closed = sa_sink_close(out);
    return failed ? failed : closed;
}

/* The variables that are too large for the stack of any thread. */
struct room {
    struct sa_file file;
    struct sa_destination destination;
    char path[SA_FILE_PATH_MAX];
};

#define ROOM_BYTES sa_align_up(sizeof(struct room), 65536)

SA_STATIC_ASSERT(sizeof(struct room) <= 64 << 10, "doc/profiles.md says so");

/* Writes a profile to a destination. The file appears complete, or not at all. */
static int write_to(const struct sa_profile *profile, const struct sa_destination *d,
                    struct room *room)
{
    const struct sa_profile_format *format = format_of(d->pattern);
    int failed = format ? 0 : -EINVAL;

    if (!failed)
        failed = sa_destination_begin(d, &room->file, room->path, format->write == sa_write_report);
    if (failed)
        return failed;
    failed = write_into(profile, format, sink, &room->file);
    if (failed)
        sa_file_abandon(&room->file);
    else
        failed = sa_file_commit(&room->file);
    return failed;
}

int sa_profile_write_to(const struct sa_profile *profile, const struct sa_destination *d)
{
    struct room *room = sa_vm_map(NULL, ROOM_BYTES, "salloc file");
    int failed;

    if (!room)
        return -ENOMEM;
    failed = write_to(profile, d, room);
    sa_vm_unmap(room, ROOM_BYTES);
    return failed;
}

int sa_profile_write(const struct sa_profile *profile, const char *format,
                     int (*write)(void *arg, const void *data, size_t bytes), void *arg)
{
    const struct sa_profile_format *found = sa_profile_format_of(format);

    return found ? write_into(profile, found, write, arg) : -EINVAL;
}

int sa_profile_write_fd(const struct sa_profile *profile, int fd, const char *format)
{
    struct room *room = sa_vm_map(NULL, ROOM_BYTES, "salloc file");
    int failed;

    if (!room)
        return -ENOMEM;
    sa_file_begin_descriptor(&room->file, fd);
    failed = sa_profile_write(profile, format, sink, &room->file);
    if (!failed)
        failed = sa_file_commit(&room->file);
    sa_vm_unmap(room, ROOM_BYTES);
    return failed;
}

int sa_profile_write_file(const struct sa_profile *profile, const char *pattern)
{
    struct room *room;
    int failed = sa_profile_check_path(pattern);

    if (failed)
        return failed;
    room = sa_vm_map(NULL, ROOM_BYTES, "salloc file");
    if (!room)
        return -ENOMEM;
    failed = sa_destination_init(&room->destination, pattern);
    if (!failed)
        failed = write_to(profile, &room->destination, room);
    sa_vm_unmap(room, ROOM_BYTES);
    return failed;
}
