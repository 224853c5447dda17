/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A growing array in a mapping of its own, never on the heap. Growing may move it, so callers keep
 * offsets. There is no lock: a buffer belongs to one function at a time. All zero is an empty
 * buffer.
 */
#ifndef SA_OS_BUFFER_H
#define SA_OS_BUFFER_H

#include <stddef.h>

struct sa_buffer {
    char *data;
    size_t used, cap;
};

/* Adds zeroed bytes at the end; where they are. NULL: out of memory, and nothing has changed. */
void *sa_buffer_add(struct sa_buffer *buffer, size_t bytes);

/* The buffer is empty afterwards. */
void sa_buffer_free(struct sa_buffer *buffer);

#endif
