/* SPDX-License-Identifier: Apache-2.0 */
/* Texts for errno values in messages. libc's strerror may allocate and consults the locale, and
 * strerrordesc_np, which does neither, is missing before glibc 2.32. Async-signal-safe, no state.
 */
#ifndef SA_BASE_ERROR_WORDS_H
#define SA_BASE_ERROR_WORDS_H

#include "alloc/base/fmt.h"

/* Adds the text for an errno, or "error N" if there is none. */
void sa_error_words_add(struct sa_fmt *f, int error);

#endif
