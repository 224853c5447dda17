/* SPDX-License-Identifier: Apache-2.0 */
/* Source lines in a profile file. Only in builds that found elfutils' libdw. */
#ifndef SA_TOOL_SYMBOL_ADD_LINES_H
#define SA_TOOL_SYMBOL_ADD_LINES_H

#include "tool/file/profile_file.h"

/*
 * Replaces a profile that was read from a file by one whose locations have the functions of their
 * debug information, inlined ones too, with source files and lines. Names are demangled. Samples,
 * their numbers and labels stay as they are, to the byte. Locations that have lines already keep
 * them. root: a folder under which the paths of programs are looked up first, or NULL. False: *e
 * says why, and the profile is as it was.
 */
bool sa_add_lines(struct sa_profile_file *file, const char *root, struct sa_error *e);

#endif
