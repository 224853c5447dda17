/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The report for whoever looks at a core dump: salloc_abort_message points to its text, and so does
 * libc's
 * __abort_msg, which debuggers and crash reporters print.
 *
 * libc has no public name for __abort_msg. The library looks it up in the tables of the loaded libc
 * and does not depend on it: where it is missing (a static program, another libc)
 * salloc_abort_message alone has the text.
 */
#ifndef SA_SAMPLING_GUARD_ABORT_MESSAGE_H
#define SA_SAMPLING_GUARD_ABORT_MESSAGE_H

#include "alloc/base/attrs.h"

#include <stdbool.h>
#include <stddef.h>

/* NULL: no report yet. Exported for debuggers: `x/s salloc_abort_message`. */
extern const char *salloc_abort_message SA_EXPORT;

/* Begins a new text. aborts: the process is about to abort, which libc is told, too. By the thread
 * that reports. */
void sa_abort_message_begin(bool aborts);

/* Adds to it; what does not fit is left out. */
void sa_abort_message_add(const char *text, size_t bytes);

#endif
