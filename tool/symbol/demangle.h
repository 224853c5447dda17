/* SPDX-License-Identifier: Apache-2.0 */
/* Names of C++, Rust and D as their sources have them. */
#ifndef SA_TOOL_SYMBOL_DEMANGLE_H
#define SA_TOOL_SYMBOL_DEMANGLE_H

#include <stdbool.h>

/*
 * The plain name of a mangled one, to be freed. NULL: it is none, there is no memory, the plain
 * name would be longer than 64 KiB, or the build found no libiberty. Names come from files that
 * are not trusted: a few hundred letters may stand for gigabytes.
 */
char *sa_demangle(const char *name);

/* Whether the build found libiberty. */
bool sa_can_demangle(void);

#endif
