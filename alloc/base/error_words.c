/* SPDX-License-Identifier: Apache-2.0 */
/* The texts of error_words.h: errors of files and of memory. A constant table, no state. */
#include "alloc/base/error_words.h"

#include <errno.h>
#include <stddef.h>

/* Arrays instead of pointers, which the loader would have to relocate in every process. */
static const struct {
    int error;
    char words[52];
} errors[] = {
    {EPERM, "Operation not permitted"},
    {ENOENT, "No such file or directory"},
    {EINTR, "Interrupted"},
    {EIO, "Input/output error"},
    {ENXIO, "No reader, or no such device"},
    {EBADF, "Not a descriptor that is open for writing"},
    {EAGAIN, "Resource temporarily unavailable"},
    {ENOMEM, "Cannot allocate memory"},
    {EACCES, "Permission denied"},
    {EBUSY, "Device or resource busy"},
    {EEXIST, "Not a file, a device, a pipe or a socket"},
    {ENODEV, "No such device"},
    {ENOTDIR, "Not a directory"},
    {EISDIR, "Is a directory"},
    {EINVAL, "Invalid path, ending or placeholder"},
    {ENFILE, "Too many open files in system"},
    {EMFILE, "Too many open files"},
    {ETXTBSY, "Text file busy"},
    {EFBIG, "File too large"},
    {ENOSPC, "No space left on device"},
    {EROFS, "Read-only file system"},
    {EMLINK, "Too many links"},
    {EPIPE, "Broken pipe"},
    {ENAMETOOLONG, "File name too long"},
    {ENOSYS, "Function not implemented"},
    {ELOOP, "A link of another user, or too many links"},
    {EOPNOTSUPP, "Operation not supported"},
    {EPROTOTYPE, "Not a stream socket"},
    {ECONNREFUSED, "Nobody listens at the socket"},
    {ESTALE, "Stale file handle"},
    {EDQUOT, "Disk quota exceeded"},
};

void sa_error_words_add(struct sa_fmt *f, int error)
{
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
        if (errors[i].error == error) {
            sa_fmt_add(f, "%s", errors[i].words);
            return;
        }
    }
    sa_fmt_add(f, "error %d", error);
}
