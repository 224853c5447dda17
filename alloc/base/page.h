/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Units. A page here is salloc's own, 8 KiB, whatever the kernel's is; where the kernel's pages are
 * larger, spans are multiples of those (sa_size_class_init and the page heap round up).
 *
 * The home window is the 64 GiB of address space, aligned to its size, in which ordinary spans are
 * placed; the fast path maps only addresses of that window. Where it is is a constant, because
 * free() is measurably faster for not having to load it; where in it the heap begins is random.
 * Memory beyond it works the same, by way of the radix map on the slow path.
 */
#ifndef SA_BASE_PAGE_H
#define SA_BASE_PAGE_H

#include "alloc/base/attrs.h"

#include <stdint.h>

#define SA_PAGE_SHIFT 13
#define SA_PAGE_BYTES (1ul << SA_PAGE_SHIFT)

#define SA_HOME_SHIFT 36
#define SA_HOME_BYTES (1ul << SA_HOME_SHIFT)
#define SA_HOME_PAGES (1ul << (SA_HOME_SHIFT - SA_PAGE_SHIFT))

/*
 * Far from where programs, the kernel and other runtimes put things, and below 2^44, so that the
 * page number is an immediate operand. On aarch64, within the 39 bits that small configurations
 * have. The sanitizers leave other places to programs.
 */
#if SA_ASAN
#define SA_HOME_START (0x3000ul << 32)
#elif defined(__aarch64__) || SA_TSAN
#define SA_HOME_START (0x20ul << 32)
#else
#define SA_HOME_START (0xc00ul << 32)
#endif
#define SA_HOME_PAGE (SA_HOME_START >> SA_PAGE_SHIFT)

/* Of tables of which parts are made read-only: a page of the kernel's, at most. */
#if defined(__aarch64__)
#define SA_TABLE_ALIGN 65536
#else
#define SA_TABLE_ALIGN 4096
#endif

#define SA_ADDRESS_BITS 48 /* user addresses on x86-64 (4-level) and aarch64 */

/* Classes up to here have spans of one page, where the kernel's are not larger. */
#define SA_SMALL_MAX 1024
#define SA_MID_MAX   262144 /* largest size class; larger blocks are spans of their own */
#define SA_MIN_ALIGN 16

#define SA_CLASSES_MAX 128 /* size classes, class 0 (none) included */

#endif
