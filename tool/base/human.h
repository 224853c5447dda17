/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers, times and names as people read them. */
#ifndef SA_TOOL_BASE_HUMAN_H
#define SA_TOOL_BASE_HUMAN_H

#include <stddef.h>

#define SA_HUMAN_BYTES 24 /* enough for a number or a time with its unit */

/* Bytes as "12 B" or "1.5 MiB", a count as "12", nanoseconds as "1.5 ms". Each has at most 10
 * columns. */
void sa_human_bytes(double bytes, char ret[SA_HUMAN_BYTES]);
void sa_human_count(double count, char ret[SA_HUMAN_BYTES]);
void sa_human_time(double ns, char ret[SA_HUMAN_BYTES]);

/*
 * A name of a function in at most `columns` columns, which are at least 8, or 0: no limit. What
 * says least goes first: template arguments, the innermost first, then parameters, then the middle.
 * cap: bytes of ret.
 */
void sa_human_name(const char *name, unsigned columns, char *ret, size_t cap);

/* Columns that a text takes. */
size_t sa_human_columns(const char *text);

/* The end of a path, which says most, in at most `columns` columns. */
void sa_human_path(const char *path, unsigned columns, char *ret, size_t cap);

#endif
