/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An array that grows, in memory of its own: mapped, never from the heap. Growing may move it, so
 * others keep offsets. No lock: it belongs to one function at a time. All zero is the empty buffer.
 */
#ifndef SA_OS_BUFFER_H
#define SA_OS_BUFFER_H

#include <stddef.h>

struct sa_buffer {
    char *data;
    size_t used, cap;
};

/* That many zeroed bytes at the end, or NULL: there is no memory and nothing has changed. */
void *sa_buffer_add(struct sa_buffer *buffer, size_t bytes);

/* The buffer is empty afterwards. */
void sa_buffer_free(struct sa_buffer *buffer);

#endif
