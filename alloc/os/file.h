/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that appear when they are complete or not at all: reports and profiles. A file is for its
 * owner alone (mode 0600) unless its caller says otherwise, takes the place of a file or symbolic
 * link of its name, and is never written through a link. What stands there before and is neither (a
 * device, a pipe, a folder) is left alone, and so is a link that leads to a device, a pipe or a
 * socket, or to an open file of a process.
 *
 * Until it is complete the file has no name where the system can do that, else a temporary one
 * beside the final one. Functions return 0 or a negative errno, and after any failure nothing
 * stays. Not bound to a thread; no state but the sequence number (atomic) that names are made of.
 */
#ifndef SA_OS_FILE_H
#define SA_OS_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SA_FILE_PATH_MAX 4096

struct sa_file {
    int fd;                   /* -1: not open */
    bool named;               /* the temporary name exists */
    bool placed;              /* the file has its own name already */
    bool borrowed;            /* the descriptor is of the caller, and there is no path */
    uint64_t at;              /* bytes written */
    size_t lines, lines_most; /* lines that came, and that a borrowed descriptor gets; 0: all */
    uint64_t limit;
    char path[SA_FILE_PATH_MAX];
    char temporary[SA_FILE_PATH_MAX];
};

int sa_file_begin(struct sa_file *file, const char *path);

/* The same with another mode, of which the process's umask takes what it takes of any file. */
int sa_file_begin_as(struct sa_file *file, const char *path, int mode);

/*
 * What is written goes to an open descriptor at once, which stays open. A pipe that nobody reads
 * any more gives -EPIPE, without the signal; one that is full makes this wait. The caller may set
 * lines_most.
 */
void sa_file_begin_descriptor(struct sa_file *file, int fd);

/* All of it, or an error: -ENOSPC, or -EFBIG at the process's limit, which would end it with a
 * signal. */
int sa_file_write(struct sa_file *file, const void *data, size_t bytes);

/* The file gets its name. It is closed in any case. */
int sa_file_commit(struct sa_file *file);

/* Forgets what was written. May follow a failed write, not a commit. */
void sa_file_abandon(struct sa_file *file);

/*
 * A path from a pattern: %p is the process's number, %e the name of its executable, %n a number
 * that grows with each path made, %% is %. -EINVAL for another placeholder or an empty path,
 * -ENAMETOOLONG.
 */
int sa_file_expand(const char *pattern, char *buf, size_t cap);

/* The same without taking a number: %n is what it was last. */
int sa_file_expand_to_try(const char *pattern, char *buf, size_t cap);

/* The name of the process's executable, without folders. */
void sa_file_program_name(char *buf, size_t cap);

/* What sa_file_expand would say of the placeholders. */
int sa_file_check_pattern(const char *pattern);

#endif
