/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the entry points share: the only place where errno is set. Slow paths may disturb errno; a
 * successful call leaves it as it was, a failed allocation sets ENOMEM.
 */
#ifndef SA_API_ENTRY_H
#define SA_API_ENTRY_H

#include "alloc/base/attrs.h"

#include <stddef.h>

/* As sa_front_alloc, with errno and after making sure that the library is initialised. */
SA_NOINLINE void *sa_entry_alloc(size_t size, size_t align, int zero);
SA_NOINLINE void *sa_entry_malloc(size_t size);
SA_NOINLINE void sa_entry_free(void *p); /* NULL allowed */
SA_NOINLINE void sa_entry_free_sized(void *p, size_t size, size_t align);

#endif
