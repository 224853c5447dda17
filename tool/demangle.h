/* SPDX-License-Identifier: Apache-2.0 */
/* Names of C++, Rust and D as their sources have them. */
#ifndef SA_TOOL_DEMANGLE_H
#define SA_TOOL_DEMANGLE_H

/* The name, to be freed; NULL: it is none of these, or the build lacks libiberty. */
char *sa_demangle(const char *name);

#endif
