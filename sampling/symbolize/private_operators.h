/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds loaded objects with operators new and delete of their own, which call malloc and free:
 * those with a private copy of libstdc++ (-static-libstdc++) or with hidden operators. A block that
 * crosses between such an object and one with the shared operators looks as if it were freed by the
 * wrong function.
 *
 * The functions read what the loader has mapped, and no file. They take as long as it takes to read
 * all of an object, once for each object. Any thread may call them, without a lock of salloc held.
 */
#ifndef SA_SAMPLING_SYMBOLIZE_PRIVATE_OPERATORS_H
#define SA_SAMPLING_SYMBOLIZE_PRIVATE_OPERATORS_H

#include "alloc/base/attrs.h"

#include <stdbool.h>
#include <stdint.h>

/* True if the object with the code at `pc`, a return address, has operators of its own, and also if
 * no loaded object has it. Takes no lock where libc has _dl_find_object. */
SA_COLD bool sa_private_operators_at(uintptr_t pc);

/* True if any loaded object has operators of its own, or once had when this was called. Takes the
 * loader's lock. */
SA_COLD bool sa_private_operators_anywhere(void);

#endif
