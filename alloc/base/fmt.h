/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A bounded formatter that never allocates, never looks at the locale and is async-signal-safe.
 * It serves the fatal messages and the stats page. Understood:
 *
 *   %d %u %x   int, unsigned          %zu %zx    size_t          %llu  unsigned long long
 *   %p         pointer as 0x...       %s %c %%
 *   %m         size_t bytes printed as MiB with one decimal (takes a width: %7m)
 *   %F         double with the given precision (%.4F, default 1), no exponent, |x| < 1e15
 *
 * with optional '-', '0' and width. Output is always terminated; the length that was written
 * (not the one that would have been) is kept.
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
