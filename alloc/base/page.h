/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Units of memory, and the home window. No state.
 *
 * A page is salloc's own page of 8 KiB, whatever the kernel's page size is. Where the kernel's
 * pages are larger, spans are multiples of those (sa_size_class_init and the page heap round up).
 *
 * The home window is the 64 GiB of address space, aligned to their size, in which ordinary spans
 * are placed. The fast path looks up only addresses of this window. The window's address is a
 * constant, because free is measurably faster if it does not load it. The heap begins at a random
 * place in the window. Blocks outside the window work as well: free finds them by the radix map
 * (alloc/front/fast_path_far.h).
 */
#ifndef SA_BASE_PAGE_H
#define SA_BASE_PAGE_H

#include "alloc/base/attrs.h"

#include <stdint.h>

#ifndef SA_PAGE_SHIFT /* perf/fragmentation/model.c is built with other lengths */
#define SA_PAGE_SHIFT 13
#endif
#define SA_PAGE_BYTES (1ul << SA_PAGE_SHIFT)

#define SA_HOME_SHIFT 36
#define SA_HOME_BYTES (1ul << SA_HOME_SHIFT)
#define SA_HOME_PAGES (1ul << (SA_HOME_SHIFT - SA_PAGE_SHIFT))

/*
 * The start of the window: far from the addresses that programs, the kernel and other runtimes use,
 * and below 2^44, so that the page number is an immediate operand. On aarch64 it lies within the 39
 * bits that small configurations have. Sanitizers reserve other ranges.
 */
#if SA_ASAN
#define SA_HOME_START (0x3000ul << 32)
#elif defined(__aarch64__) || SA_TSAN
#define SA_HOME_START (0x20ul << 32)
#else
#define SA_HOME_START (0xc00ul << 32)
#endif
#define SA_HOME_PAGE (SA_HOME_START >> SA_PAGE_SHIFT)

/* Alignment of tables whose parts are made read-only: the largest page size of the kernel. */
#if defined(__aarch64__)
#define SA_TABLE_ALIGN 65536
#else
#define SA_TABLE_ALIGN 4096
#endif

#define SA_ADDRESS_BITS 48 /* bits of user addresses on x86-64 (4-level) and aarch64 */

/* Spans of classes up to this size are one page long, unless the kernel's pages are larger. */
#define SA_SMALL_MAX 1024
#define SA_MID_MAX   262144 /* largest size class; a larger block is a span of its own */
#define SA_MIN_ALIGN 16

/* The fast path's table of sizes above SA_SMALL_MAX has an entry for each so many bytes. */
#define SA_MID_GRAIN 64

#define SA_CLASSES_MAX 104 /* size classes, including class 0 (none) */

#endif
