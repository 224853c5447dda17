/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses in objects that were unloaded. When an object goes, the frames that stacks have in it
 * become places in it: the number of its name, and the distance from its base. Another object may
 * then be loaded at its addresses, and never gets its frames.
 *
 * The lock STACKS guards the names; they are only added, so a place stays valid.
 */
#ifndef SA_SAMPLING_STACK_UNLOADED_H
#define SA_SAMPLING_STACK_UNLOADED_H

#include "alloc/base/attrs.h"
#include "alloc/os/lock.h"

#include <stdbool.h>
#include <stdint.h>

#define SA_UNLOADED_NAMES 256
#define SA_UNLOADED_NAME  64 /* bytes with the end */

struct sa_unloaded {
    uint32_t count; /* atomic: release by STACKS, acquire */
    char names[SA_UNLOADED_NAMES][SA_UNLOADED_NAME];
};

extern struct sa_unloaded sa_unloaded;

/* A place: no address of user space has the top bit. */
#define SA_UNLOADED_BIT    ((uintptr_t)1 << 63)
#define SA_UNLOADED_SHIFT  48
#define SA_UNLOADED_OFFSET (((uintptr_t)1 << SA_UNLOADED_SHIFT) - 1)

SA_INLINE bool sa_unloaded_is(uintptr_t pc)
{
    return pc & SA_UNLOADED_BIT;
}

SA_INLINE uintptr_t sa_unloaded_place(uint32_t number, uintptr_t offset)
{
    return SA_UNLOADED_BIT | (uintptr_t)number << SA_UNLOADED_SHIFT | (offset & SA_UNLOADED_OFFSET);
}

/* Stores "[unloaded NAME+0x123]", with the offset of the call before the return address pc. */
struct sa_fmt;
void sa_unloaded_format(const struct sa_unloaded *names, uintptr_t pc, struct sa_fmt *f);

#endif
