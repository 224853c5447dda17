/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays that grow while elements are added. */
#ifndef SA_TOOL_BASE_ARRAY_H
#define SA_TOOL_BASE_ARRAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/*
 * Makes room for `count` elements of `bytes` bytes each. `array` is the address of the pointer to
 * the first one, *cap the number that fits now: the least power of two times `first` that is
 * enough. False: no memory, and the array is as it was.
 */
static inline bool sa_array_room(void *array, size_t *cap, size_t count, size_t bytes, size_t first)
{
    size_t room = *cap ? *cap : first;
    void *p;

    if (count <= *cap)
        return true;
    while (room < count)
        room *= 2;
    memcpy(&p, array, sizeof(p)); /* the pointer has another type there */
    p = realloc(p, room * bytes);
    if (!p)
        return false;
    memcpy(array, &p, sizeof(p));
    *cap = room;
    return true;
}

#endif
