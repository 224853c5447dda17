/* SPDX-License-Identifier: Apache-2.0 */
/* 200 functions that allocate, each with a size of its own from 16 bytes to 4 MiB in equal steps of
 * the logarithm. */
#ifndef SA_TEST_SITES_H
#define SA_TEST_SITES_H

#include <stddef.h>

#define SITES 200

enum how { BY_MALLOC, BY_CALLOC, BY_ALIGNED, BY_REALLOC, HOWS };

extern void *(*const site_function[SITES])(enum how how, void *old, size_t size);

size_t site_size(unsigned site);

/* The site in whose function an address is, or SITES. */
unsigned site_of(const void *pc);

#endif
