/* SPDX-License-Identifier: Apache-2.0 */
/* Growing arrays; see buffer.h. A buffer belongs to its caller, and this file has no variables. */
#include "alloc/os/buffer.h"

#include "alloc/base/bits.h"
#include "alloc/base/fatal.h"
#include "alloc/os/vm.h"

#include <string.h>

#define FIRST_BYTES 65536 /* of the first mapping; a multiple of every page size */

/* Doubles the capacity until it is at least `need`. False: out of memory, and nothing has
 * changed. */
static bool buffer_grow(struct sa_buffer *buffer, size_t need)
{
    size_t cap = buffer->cap ? buffer->cap : FIRST_BYTES;
    void *p;

    while (cap < need)
        if (__builtin_mul_overflow(cap, 2, &cap))
            return false;
    p = buffer->data ? sa_vm_lengthen(buffer->data, buffer->cap, cap)
                     : sa_vm_map(NULL, cap, "salloc buffer");
    if (!p)
        return false;
    buffer->data = p;
    buffer->cap = cap;
    return true;
}

void *sa_buffer_add(struct sa_buffer *buffer, size_t bytes)
{
    size_t need;
    char *p;

    if (__builtin_add_overflow(buffer->used, bytes, &need))
        return NULL;
    if ((need > buffer->cap || !buffer->data) && !buffer_grow(buffer, need))
        return NULL;
    SA_DCHECK(buffer->used <= need && need <= buffer->cap);
    p = buffer->data + buffer->used;
    buffer->used = need;
    memset(p, 0, bytes); /* a caller may have lowered `used`: the bytes may hold old data */
    return p;
}

void sa_buffer_free(struct sa_buffer *buffer)
{
    if (buffer->data)
        sa_vm_unmap(buffer->data, buffer->cap);
    *buffer = (struct sa_buffer){NULL, 0, 0};
}
