/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions, source lines and inlined calls of addresses in a profile file, from the debug
 * information of the programs and libraries (debug_file.h). Names and paths come from files that
 * are not trusted, and live until sa_lines_close().
 */
#ifndef SA_TOOL_SYMBOL_LINES_H
#define SA_TOOL_SYMBOL_LINES_H

#include "tool/file/profile_file.h"

#define SA_LINES_MAX 64 /* functions of an address: one, and those inlined there */

struct sa_line {
    const char *name;   /* mangled, if the language mangles names; NULL: not known */
    const char *folder; /* where the compiler ran, for a relative path; NULL: not known */
    const char *file;   /* NULL: not known */
    int line;           /* 0: not known */
};

struct sa_lines;

/* Reads nothing yet. root: a folder under which paths are looked up first, or NULL. NULL: there is
 * no memory. */
struct sa_lines *sa_lines_open(const struct sa_profile_file *profile, const char *root);
void sa_lines_close(struct sa_lines *lines);

/* The functions at a location of the profile, the innermost inlined one first. Returns their
 * number; 0: nothing is known. */
unsigned sa_lines_find(struct sa_lines *lines, const struct sa_file_location *location,
                       struct sa_line ret[SA_LINES_MAX]);

#endif
