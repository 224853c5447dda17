/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts the allocator inside a test program, which links the core without its entry points: malloc
 * stays libc's, for cmocka and for the models that tests compare with. The order is that of
 * alloc/api/process/init.c. Every test program is a process of its own and starts it at most once.
 */
#ifndef SA_TEST_START_H
#define SA_TEST_START_H

#include <stdbool.h>
#include <stddef.h>

#define TEST_CACHE_LIMIT (1536u * 1024)

/* The layers below the front end: tables, page heap (its window from a fixed seed), rseq. */
void test_start_layers(void);

/* Everything, with a limit for each CPU's cache. */
void test_start(size_t cpu_cache_limit);

/*
 * Whether caches are per CPU in this run. They are per thread where the kernel or libc has no rseq,
 * where SALLOC_TEST_CACHES=thread asks for it, and under ThreadSanitizer, which cannot see the
 * order that restartable sequences give to the memory that they hand over.
 */
bool test_per_cpu(void);

/* Keeps the calling thread on the CPU that it runs on. */
void test_pin(void);

#endif
