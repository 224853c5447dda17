/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A bounded formatter that never allocates, does not consult the locale, and is async-signal-safe.
 * It serves fatal messages and the stats page. It understands:
 *
 *   %d %u %x   int, unsigned          with z: size_t, with l or ll: (unsigned) long (long)
 *   %p         pointer as 0x...       %s %c %%
 *   %m         size_t bytes, printed as MiB with one decimal (%7m has a width)
 *   %F         double with the given precision (%.4F; default 1, at most 9), no exponent; digits
 *              are exact for |x| < 1e15
 *
 * The flags '-' and '0' and a width, which may be '*', are optional; %c ignores them. The output is
 * always terminated. `len` counts the characters written, without those that did not fit.
 *
 * A struct sa_fmt belongs to its caller. No shared state.
 */
#ifndef SA_BASE_FMT_H
#define SA_BASE_FMT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

struct sa_fmt {
    char *buf;
    size_t cap; /* size of buf, including the terminator */
    size_t len; /* characters written so far */
    bool truncated;
};

void sa_fmt_init(struct sa_fmt *f, char *buf, size_t cap);
void sa_fmt_add(struct sa_fmt *f, const char *format, ...);
void sa_fmt_addv(struct sa_fmt *f, const char *format, va_list ap);

#endif
