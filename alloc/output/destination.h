/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The destination of a report, as its user wrote it: the pattern of a path, or an open descriptor
 * (stderr, stdout, fd:N, and their names in /dev and /proc/self/fd). The destination of an option
 * is kept from the start of a process to its end:
 *
 *   - a relative path is relative to the folder at the start;
 *   - a descriptor is copied, because programs close stdout and stderr in exit handlers that run
 *     before those of this library. The copy and the number are written to only while each is the
 *     same file;
 *   - a path is tried, without leaving a file, so that the user learns of an error at once.
 *
 * A path without a PID is that of the process which the user has started. Processes that this one
 * starts with the same option are nested: their files get the name of the executable and the PID
 * before the ending, so that no process replaces the file of another one.
 *
 * Functions return 0 or a negative errno. No lock: the caller serialises the use of a destination.
 */
#ifndef SA_OUTPUT_DESTINATION_H
#define SA_OUTPUT_DESTINATION_H

#include "alloc/output/file.h"

#include <stdbool.h>

/* The most lines that stderr gets of a text, with the last one, which says how many are missing. */
#define SA_DESTINATION_LINES 30

struct sa_destination {
    int number;           /* the descriptor that the user named; -1: a path */
    int copy;             /* a copy of it; -1: none */
    uint64_t identity[2]; /* device and inode of the descriptor's file at initialisation */
    int mode;             /* of a new file; 0600 unless the caller sets another */
    bool nested;          /* see above */
    int told;             /* the errno that the caller has reported already; 0: none */
    char pattern[SA_FILE_PATH_MAX];
};

/*
 * Returns the descriptor that a pattern names, or -1 if it is the pattern of a path. "fd:N" may
 * have an ending, which selects the format of a report ("fd:3.json"): *ret_ending becomes the
 * ending or NULL.
 */
int sa_destination_number(const char *pattern, const char **ret_ending);

/* Whether data for a pattern would go to a descriptor, a device, a pipe or a socket. */
bool sa_destination_is_direct(const char *pattern);

/* Initialises a destination for a report that is written now. */
int sa_destination_init(struct sa_destination *d, const char *pattern);

/* Initialises a destination for reports that come later, and tries it. The destination can be used
 * whatever this returns. nested: this process is, see above. */
int sa_destination_keep(struct sa_destination *d, const char *pattern, bool nested);

/*
 * Begins a file at the destination. path: SA_FILE_PATH_MAX bytes that become its name for messages,
 * also on failure. text: a report for people, of which stderr gets the first SA_DESTINATION_LINES
 * lines.
 */
int sa_destination_begin(const struct sa_destination *d, struct sa_file *file, char *path,
                         bool text);

/*
 * Begins a file that is written now, at a name without placeholders: a path, or a descriptor as
 * above. A pipe is waited for until somebody reads it.
 */
int sa_destination_open(struct sa_file *file, const char *name, int mode);

/* Called in a child of fork, which is nested. Closes the copy, which could keep a pipe open. The
 * number remains. */
void sa_destination_after_fork(struct sa_destination *d);

/* Prints a line on stderr: the program's name and PID, what could not be written where, and why.
 * error: a positive errno. */
void sa_destination_complain(const char *what, const char *path, int error);

/* Takes the result of a write, a positive errno or 0. Complains of an error, unless it was the
 * last result, too. */
void sa_destination_tell(struct sa_destination *d, const char *what, const char *path, int error);

#endif
