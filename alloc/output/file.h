/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Outputs: reports and profiles. The library and sallocctl open all of theirs here, by one rule:
 *
 *   - a regular file appears when it is complete, or not at all, and replaces a file of its name;
 *   - a device, a pipe, a socket, and a descriptor of this process by its path (/dev/stdout) is
 *     written to as it is;
 *   - a link stays. Where it leads, to one of these or to nothing yet, is where the output goes. A
 *     link of a user who is neither this process's nor root is refused (-ELOOP);
 *   - anything else, as a folder or the open file of another process, is refused.
 *
 * A new file belongs to its owner alone (mode 0600), unless its caller says otherwise.
 *
 * Until a file is complete, it has no name if the system can do that, else a temporary name in the
 * same folder. Functions return 0 or a negative errno, and leave no file behind after a failure. A
 * struct sa_file belongs to its caller. The only state besides is the numbers in names, which are
 * atomic.
 */
#ifndef SA_OUTPUT_FILE_H
#define SA_OUTPUT_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SA_FILE_PATH_MAX 4096

struct sa_file {
    int fd;        /* -1: not open */
    bool named;    /* the temporary name exists */
    bool placed;   /* the file has its final name */
    bool direct;   /* data goes to the descriptor at once; there is no new file */
    bool borrowed; /* direct, and the descriptor belongs to the caller */
    uint64_t at;   /* bytes written */
    /* Lines so far, and the most that a borrowed descriptor gets; 0: no bound. */
    size_t lines, lines_max;
    uint64_t limit; /* the process's limit of a file's bytes */
    char path[SA_FILE_PATH_MAX];
    char temporary[SA_FILE_PATH_MAX];
};

/* Begins a file of mode 0600 at a path. */
int sa_file_begin(struct sa_file *file, const char *path);

/* The same with another mode, which the process's umask restricts as for any file. waits: for the
 * reader of a pipe, and for a socket that is busy; otherwise these are errors. */
int sa_file_begin_as(struct sa_file *file, const char *path, int mode, bool waits);

/* Returns what sa_file_begin would, and leaves nothing. Devices, pipes and sockets are not opened:
 * that has effects. `file` is room to work in. */
int sa_file_try(struct sa_file *file, const char *path);

/* Whether data for a path would go to a device, a pipe, a socket or a descriptor. `file` is room
 * to work in. */
bool sa_file_is_direct(struct sa_file *file, const char *path);

/* The descriptor of this process that a path names by itself, as /dev/stdout and /proc/self/fd/3
 * do; -1: none. */
int sa_file_descriptor_of(const char *path);

/* The same, also through links. `file` is room to work in. */
int sa_file_leads_to(struct sa_file *file, const char *path);

/* Returns 0 if a descriptor can be written to. */
int sa_file_check_descriptor(int fd);

/*
 * Begins to write to an open descriptor, which stays open. Data goes there at once. A pipe without
 * a reader gives -EPIPE and no signal; a full one makes the writer wait. The caller may set
 * lines_max.
 */
void sa_file_begin_descriptor(struct sa_file *file, int fd);

/* Writes all bytes, or fails: -ENOSPC; -EFBIG instead of the signal that ends a process at its
 * limit of file sizes. */
int sa_file_write(struct sa_file *file, const void *data, size_t bytes);

/* Gives the file its name. Closes it in any case; a borrowed descriptor stays open. */
int sa_file_commit(struct sa_file *file);

/* Removes what was written. May follow a failed write, but not sa_file_commit. */
void sa_file_abandon(struct sa_file *file);

/*
 * Makes a path of a pattern: %p becomes the PID, %e the name of the executable, %n a number that
 * grows with each path made, %c a comma, %% becomes %. -EINVAL: another placeholder, or an empty
 * pattern. -ENAMETOOLONG.
 */
int sa_file_expand(const char *pattern, char *buf, size_t cap);

/* The same, but %n becomes the last number, and no number is used up. */
int sa_file_expand_to_try(const char *pattern, char *buf, size_t cap);

/* Whether a pattern has the placeholder %p. */
bool sa_file_pattern_has_pid(const char *pattern);

/* Stores the name of the process's executable, without folders, cut to `cap` bytes. */
void sa_file_program_name(char *buf, size_t cap);

/* Checks the placeholders of a pattern, as sa_file_expand does. */
int sa_file_check_pattern(const char *pattern);

#endif
