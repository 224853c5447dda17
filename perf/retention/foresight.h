/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a rule would pay that knows the future, where the page heap places spans as if nothing were
 * ever released. Pages are not interchangeable here, and there are two prices.
 *
 * Each page is touched at first, at the price of whole hugepages. From one span to the next it is
 * free for a time, and costs the least of three: it stays; it goes back inside of its hugepage; it
 * stays but for the longest time in which all of the hugepage was free. A page that no further span
 * takes costs nothing.
 *
 * Under another rule the heap may place spans better, so that a rule can cost less than this.
 */
#ifndef PERF_RETENTION_FORESIGHT_H
#define PERF_RETENTION_FORESIGHT_H

#include <stddef.h>
#include <stdint.h>

/* The cost in ns of CPU time. */
extern double foresight_ns;

void foresight_begin(void);

/* A span has taken so many pages from the address on, or is about to give them. */
void foresight_take(uintptr_t start, size_t pages, uint64_t now_ns);
void foresight_give(uintptr_t start, size_t pages, uint64_t now_ns);

#endif
