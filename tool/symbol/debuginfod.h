/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files from debuginfod servers, with a bound on the waiting: a server is somebody else's machine,
 * and may never answer. All waits of a command together take at most its seconds. Servers that fail
 * once are not asked again, and a note says so. Both are shared with child processes.
 */
#ifndef SA_TOOL_SYMBOL_DEBUGINFOD_H
#define SA_TOOL_SYMBOL_DEBUGINFOD_H

#include <stdbool.h>
#include <stddef.h>

#define SA_DEBUGINFOD_SECONDS 2 /* for a command that is not asked to wait */

/* Takes the servers of DEBUGINFOD_URLS over from elfutils, which would wait for minutes. Before the
 * process has other threads. */
void sa_debuginfod_begin(void);

/* The waits of what this process does from now on are counted anew, apart from those of others. */
void sa_debuginfod_begin_command(void);

/* How long the command may wait for servers in all; 0: they are not asked. */
void sa_debuginfod_allow(double seconds);
double sa_debuginfod_allowed(void);

/* Whether the command lacks a file since the servers do not answer, or have not before. */
bool sa_debuginfod_was_lacking(void);

/* Opens the debug information of a build id, or the file itself. Returns its descriptor, and its
 * path to be freed; -1: the servers have none, or may not be asked. */
int sa_debuginfod_open(const unsigned char *id, size_t bytes, bool debug, char **ret_path);

#endif
