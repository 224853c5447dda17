/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What errors are called in messages. libc's strerror may allocate and asks the locale, and the
 * function that does neither is missing in older ones. Async-signal-safe, no state.
 */
#ifndef SA_BASE_ERROR_WORDS_H
#define SA_BASE_ERROR_WORDS_H

#include "alloc/base/fmt.h"

/* Adds the words for an errno, or "error N". */
void sa_error_words_add(struct sa_fmt *f, int error);

#endif
