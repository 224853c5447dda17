/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reports of misuse: what was done, to which block, where it was allocated and freed, and in which
 * process. How a report is made is in sampling/guard/reporting.h.
 */
#ifndef SA_SAMPLING_GUARD_MISUSE_H
#define SA_SAMPLING_GUARD_MISUSE_H

#include "alloc/base/attrs.h"
#include "sampling/stack/block_history.h"

#include <stdbool.h>
#include <stdint.h>

enum sa_access { SA_ACCESS, SA_ACCESS_READ, SA_ACCESS_WRITE };

/* What is known of an address: guarded, or kept after it was freed. False: nothing. */
bool sa_misuse_find(uintptr_t address, struct sa_lookup *ret);

/* An access that faulted; pc: the stack of it, as sa_stack_capture has it. */
void sa_misuse_fault(uintptr_t address, enum sa_access access, const struct sa_lookup *found,
                     const uintptr_t *pc, unsigned depth);

/* A pointer was passed to the allocator that is not the start of a block in use. what: as
 * sa_fatal. */
SA_NORETURN SA_COLD void sa_misuse_pointer(const char *what, const void *pointer,
                                           const struct sa_lookup *found);

/* A block is not what a sized free takes it for; format: as sa_fmt_add. */
SA_NORETURN SA_COLD void sa_misuse_sized(const void *pointer, const struct sa_lookup *found,
                                         const char *format, ...);

/* A sampled block is freed or resized by a function that it is not for; text: what follows the
 * pointer. Says so once for each stack, and the program goes on. */
SA_COLD void sa_misuse_mismatch(const char *what, const void *pointer,
                                const struct sa_lookup *found, const char *text);

/* Memory beside a block was written, which was found when it was freed, or while it was in use
 * (live). */
SA_NORETURN SA_COLD void sa_misuse_damage(uintptr_t address, const struct sa_lookup *found,
                                          bool live);

/* For sa_fatal_report: the line of a fatal error with the stacks that belong to it. */
SA_COLD void sa_misuse_fatal(const char *what, const void *pointer, const char *line);

#endif
