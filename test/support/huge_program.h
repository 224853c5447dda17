/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that uses the hugepage-aware heap at random, on the fake system (fake_system.h), and
 * knows of each page what it may rely on: that nobody else has it, and that it is zero where the
 * heap says so.
 */
#ifndef TEST_SUPPORT_HUGE_PROGRAM_H
#define TEST_SUPPORT_HUGE_PROGRAM_H

#include "alloc/page_heap/page_heap.h"

struct huge_program {
    struct sa_span *spans[3000];
    unsigned count;
    uint64_t now_ns;
};

extern struct huge_program program;

/* mode: of transparent hugepages, as in the kernel's file. */
void program_begin(const char *mode, uint64_t seed);

/* A span that is checked, mostly written to, and entered in the table; NULL if the heap has
 * none. */
struct sa_span *program_take(size_t n, size_t align, bool dense);
void program_give(unsigned i);
void program_resize(unsigned i);

/* A length, at random. */
size_t program_pages(void);

/* One action of any kind. */
void program_step(void);

/* Free pages that have memory, against what the heap believes. */
void program_check_memory(void);

/* Gives all back, and checks that nothing is left. */
void program_end(void);

#endif
