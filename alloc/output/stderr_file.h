/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether descriptor 2 is stderr. A program may close it and open a data file or a connection,
 * which gets the number 2. No line of the library goes there: each is written only if descriptor 2
 * is the file that it was when the library was loaded (device and inode), and that is what people
 * or logs read: a terminal, a pipe, a regular file, or the socket that the variable JOURNAL_STREAM
 * names. A socket that is descriptor 0, too, is a connection (inetd). The report that ends a
 * program also goes to a regular file that is open for appending, as the logs of daemons are: it
 * overwrites nothing, and is the only one to say why the program is gone.
 *
 * Start-up writes the variables, before there is a second thread. Later only `answer` changes.
 */
#ifndef SA_OUTPUT_STDERR_FILE_H
#define SA_OUTPUT_STDERR_FILE_H

#include <stdbool.h>

/* Notes what descriptor 2 is, at the first call. Returns whether that is a socket. */
bool sa_stderr_file_note(void);

/* Takes the value of JOURNAL_STREAM at the start; NULL: it is not set. */
void sa_stderr_file_note_journal(const char *value);

/* Whether a line may be written to descriptor 2, of a report that ends the program or another one;
 * true before it was noted. Behind a filter of system calls: the answer of the time before. */
bool sa_stderr_file_may(bool ends);

#endif
