/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watching who has an object: its first word is claimed atomically by whoever is handed it and
 * given up before it is handed back. Two owners at a time, the failure that an allocator must never
 * have, show at once, in whichever thread is the second.
 *
 * All words of an object are the allocator's own between give and take except the first, which the
 * middle and front layers do not write while an object is free. A fresh span reads as something
 * else than the tag of a live object; memory that was live in an earlier life had its tag cleared.
 */
#ifndef TEST_SUPPORT_OBJECTS_H
#define TEST_SUPPORT_OBJECTS_H

#include <stdbool.h>
#include <stdint.h>

#define OBJECT_LIVE 0x11feb10c0b7ec711ull

/* False: somebody else has it. */
static inline bool object_claim(void *obj)
{
    return __atomic_exchange_n((uint64_t *)obj, OBJECT_LIVE, __ATOMIC_ACQ_REL) != OBJECT_LIVE;
}

/* False: it is not ours any more. */
static inline bool object_give_up(void *obj)
{
    return __atomic_exchange_n((uint64_t *)obj, 0, __ATOMIC_ACQ_REL) == OBJECT_LIVE;
}

#endif
