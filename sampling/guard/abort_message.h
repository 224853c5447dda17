/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text of a report for readers of a core dump, also where it could be written nowhere else.
 * salloc_abort_message points to it, and so does libc's __abort_msg, which debuggers and crash
 * reporters print.
 *
 * libc has no public name for __abort_msg. The library finds it in the tables of the loaded libc,
 * and does not depend on it. Where it is missing (a static program, another libc),
 * salloc_abort_message alone has the text.
 *
 * The functions are called by the thread that reports.
 */
#ifndef SA_SAMPLING_GUARD_ABORT_MESSAGE_H
#define SA_SAMPLING_GUARD_ABORT_MESSAGE_H

#include "alloc/base/attrs.h"

#include <stdbool.h>
#include <stddef.h>

/* The text; NULL: there was no report. Exported for debuggers: `x/s salloc_abort_message`. */
extern const char *salloc_abort_message SA_EXPORT;

/* Begins a new text. aborts: the process is about to abort, and libc gets the text, too. Without
 * memory for it the text is cut to its first lines, and libc gets none. */
void sa_abort_message_begin(bool aborts);

/* Adds to the text. The part that does not fit into 64 KiB is left out. */
void sa_abort_message_add(const char *line, size_t bytes);

#endif
