/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Free objects without memory. A span goes back to the page heap when all of its objects are free,
 * so one live block keeps a span of up to 256 KiB. Under a soft limit, the kernel's pages that have
 * nothing but free objects go back to the system while the rest of the span stays in use.
 *
 * The span's `emptied` bitmap says which pages hold no memory (central_emptied.h). The footprint
 * does not count them (footprint.h); it counts them again when an object that lies on them leaves
 * the central free list, before the program can touch it. A hard limit counts them all the time, so
 * that an object that is handed out again never passes it.
 */
#ifndef SA_MIDDLE_CENTRAL_EMPTY_H
#define SA_MIDDLE_CENTRAL_EMPTY_H

#include <stddef.h>

/* Gives pages of free objects to the system, up to about `bytes` bytes, those of the longest
 * objects first, in rounds of 32 spans of a class. Returns the bytes given; 0: there are no more.
 * The caller holds no lock below CENTRAL. */
size_t sa_central_empty(size_t bytes);

#endif
