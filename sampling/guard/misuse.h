/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reports of misuse. A report says what was done, to which block, where the block was allocated and
 * freed, and in which process. sampling/guard/reporting.h makes reports.
 *
 * All functions may be called from any thread, without a lock held. Those that do not return abort
 * after the report.
 */
#ifndef SA_SAMPLING_GUARD_MISUSE_H
#define SA_SAMPLING_GUARD_MISUSE_H

#include "alloc/base/attrs.h"
#include "alloc/base/fmt.h"
#include "sampling/stack/block_history.h"

#include <stdbool.h>
#include <stdint.h>

enum sa_access { SA_ACCESS, SA_ACCESS_READ, SA_ACCESS_WRITE };

/* Looks up an address among guarded blocks and in the sample quarantine. False: it is elsewhere.
 * Async-signal-safe. */
bool sa_misuse_find(uintptr_t address, struct sa_lookup *ret);

/* Reports an access that faulted, and returns. pc: the stack of the access, as sa_stack_capture
 * returns it. */
void sa_misuse_fault(uintptr_t address, enum sa_access access, const struct sa_lookup *found,
                     const uintptr_t *pc, unsigned depth);

/* Adds what is known about a pointer, passed to the allocator, that is not the start of a block in
 * use. Returns `what`, as for sa_fatal, or the name of the error that a free of the pointer is. */
SA_COLD const char *sa_misuse_describe(struct sa_fmt *f, const char *what, uintptr_t address,
                                       const struct sa_lookup *found);

/* Reports such a pointer. */
SA_NORETURN SA_COLD void sa_misuse_pointer(const char *what, const void *pointer,
                                           const struct sa_lookup *found);

/* Reports a misuse that the program survives, and returns. found: the history of a sampled block.
 * text: the detail. At most one report for each stack. */
SA_COLD void sa_misuse_survives(const char *what, const void *pointer,
                                const struct sa_lookup *found, const char *text);

/* Reports memory beside a block that was written, found when the block was freed, or (live) while
 * it was in use. address: of the nearest byte that was written. The first ends the program. The
 * second makes at most one report for each stack. */
SA_NORETURN SA_COLD void sa_misuse_damage(uintptr_t address, const struct sa_lookup *found,
                                          bool live);
SA_COLD void sa_misuse_damage_survives(uintptr_t address, const struct sa_lookup *found);

/* For sa_fatal_report: writes the line of a fatal error, with the stacks of the block at `pointer`,
 * and returns. */
SA_COLD void sa_misuse_fatal(const char *what, const void *pointer, const char *line);

#endif
