/* SPDX-License-Identifier: Apache-2.0 */
/*
 * madvise, mprotect, pkey_mprotect, mlock, mlock2 and mbind, exported to note when a program marks
 * the pages of a large block: advice that stays, access other than reading and writing, keys, locks
 * and memory policies. The page heap maps such a block afresh when it is freed, as after mremap, so
 * that no mark outlives its block. The call goes on unchanged: to an interposer behind this
 * library, or else as the system call. The same calls by number are noted in syscall_entry.c, and a
 * name for pages in prctl.c.
 *
 * mmap is not exported. A mapping over a block is rare, and libraries that are preloaded to observe
 * mmap would no longer be called.
 *
 * `moved` of a span belongs to the owner of the block, which is the program that makes the call.
 */
#ifndef SA_API_INTERPOSERS_MARK_CALLS_H
#define SA_API_INTERPOSERS_MARK_CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Marks the large blocks in a range: their pages are no longer as they were handed out. Any range
 * may be passed, from anywhere: takes no lock. A number: the compiler minds that what a pointer
 * leads to may never have been written. */
void sa_mark_calls_note(uintptr_t at, size_t bytes);

/* Whether advice (madvise) stays with the pages, rather than doing something to them once. */
bool sa_mark_calls_advice_stays(int advice);

#endif
