/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A growing array in a mapping of its own, never on the heap. Growing may move the array, so
 * callers keep offsets, not pointers. Invariant: used <= cap, and data holds `cap` bytes, or is
 * NULL with cap 0. All zero is an empty buffer. There is no lock: a buffer belongs to one function
 * at a time.
 */
#ifndef SA_OS_BUFFER_H
#define SA_OS_BUFFER_H

#include <stddef.h>

struct sa_buffer {
    char *data;
    size_t used, cap; /* bytes added, and bytes that fit before the array grows */
};

/* Adds zeroed bytes at the end and returns their address. NULL: out of memory, and nothing has
 * changed. */
void *sa_buffer_add(struct sa_buffer *buffer, size_t bytes);

/* Unmaps the array. The buffer is empty afterwards and can be used again. */
void sa_buffer_free(struct sa_buffer *buffer);

#endif
