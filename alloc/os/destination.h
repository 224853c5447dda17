/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a report goes, as its user wrote it: the pattern of a path, or an open descriptor (stderr,
 * stdout, fd:N, and their names in /dev and /proc/self/fd). A destination of an option is kept from
 * the start to the end of a process:
 *
 *   - a relative path is that of the folder at the start;
 *   - a descriptor is copied, since programs close stdout and stderr in handlers that run before
 *     those of this library. Neither the copy nor the number is written to unless it is still the
 *     same file;
 *   - writing is tried without leaving anything, so that what cannot be written is told at once.
 *
 * Functions return 0 or a negative errno. No lock: the caller serialises the use of one
 * destination.
 */
#ifndef SA_OS_DESTINATION_H
#define SA_OS_DESTINATION_H

#include "alloc/os/file.h"

#include <stdbool.h>

/* Lines of text that stderr gets at most, the one that says how many are missing included. */
#define SA_DESTINATION_LINES 30

struct sa_destination {
    int number;           /* the descriptor that was named; -1: a path */
    int copy;             /* of that one; -1: none */
    uint64_t identity[2]; /* of the file behind it when it was kept */
    int mode;             /* of a file; 0600 unless the caller sets another */
    int told;             /* the error that the user knows of already; 0: none */
    char pattern[SA_FILE_PATH_MAX];
};

/*
 * The descriptor that a pattern names, or -1: it is that of a path. "fd:N" may have an ending,
 * which picks the format of a report ("fd:3.json"); ret_ending gets it, or NULL.
 */
int sa_destination_number(const char *pattern, const char **ret_ending);

/* A destination for one report, now. */
int sa_destination_init(struct sa_destination *d, const char *pattern);

/* A destination for reports that come later, which is tried; it can be used whatever this
 * returns. */
int sa_destination_keep(struct sa_destination *d, const char *pattern);

/*
 * Begins a file there; path, of SA_FILE_PATH_MAX bytes, gets its name for messages in any case.
 * text: the report is one for people, of which stderr gets the first lines.
 */
int sa_destination_begin(const struct sa_destination *d, struct sa_file *file, char *path,
                         bool text);

/* In a child of fork: the copy, which would keep a pipe open, is closed. The number remains. */
void sa_destination_after_fork(struct sa_destination *d);

/* One line on stderr with the program's name and number: what could not be written, and why (a
 * positive errno). */
void sa_destination_complain(const char *what, const char *path, int error);

#endif
