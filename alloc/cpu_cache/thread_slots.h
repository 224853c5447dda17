/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slab numbers for threads, where rseq is missing. A thread takes one when it first needs a cache
 * and gives it back, with what the cache holds, when it ends. Slab 0 belongs to nobody and stays
 * empty; a thread that gets no number (there are 8191) allocates without a cache.
 */
#ifndef SA_CPU_CACHE_THREAD_SLOTS_H
#define SA_CPU_CACHE_THREAD_SLOTS_H

#include <stdbool.h>

/* Gives the current thread a slab; false if it has to do without. */
bool sa_thread_slots_acquire(void);

/* In a child of fork: only the current thread is left. */
void sa_thread_slots_after_fork(void);

/* Threads that hold a number now, and how many numbers were ever in use. */
unsigned sa_thread_slots_in_use(void);
unsigned sa_thread_slots_created(void);

#endif
