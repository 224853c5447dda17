/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notes: what a result lacks, and why, a line each. Whatever finds out adds one, in a child process
 * (child.h), too. Who shows the result shows them: a command on stderr, a page and a screen as a
 * part of them.
 */
#ifndef SA_TOOL_BASE_NOTE_H
#define SA_TOOL_BASE_NOTE_H

/* Begins without notes, apart from those of the parent process. */
void sa_notes_begin(void);

/* Adds a note, in the format of printf, unless it is there already, or there are 16 KiB of them. */
__attribute__((format(printf, 1, 2))) void sa_note(const char *format, ...);

/* All notes, a line each. */
const char *sa_notes(void);

/* Prints them to stderr, and forgets them. */
void sa_notes_print(void);

#endif
