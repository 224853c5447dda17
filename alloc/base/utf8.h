/* SPDX-License-Identifier: Apache-2.0 */
/* Makes foreign text (names in files, paths) fit for the files that the library writes. No
 * state. */
#ifndef SA_BASE_UTF8_H
#define SA_BASE_UTF8_H

#include <stddef.h>

/* The length of the UTF-8 character at s, where n > 0 bytes are left; 0: there is none. */
static inline size_t sa_utf8_length(const char *s, size_t n)
{
    const unsigned char *c = (const unsigned char *)s;
    size_t length = c[0] < 0x80                   ? 1
                    : c[0] >= 0xc2 && c[0] < 0xe0 ? 2
                    : c[0] >= 0xe0 && c[0] < 0xf0 ? 3
                    : c[0] >= 0xf0 && c[0] < 0xf5 ? 4
                                                  : 0;

    if (length > n)
        return 0;
    for (size_t i = 1; i < length; i++)
        if ((c[i] & 0xc0) != 0x80)
            return 0;
    if (length > 1 && ((c[0] == 0xe0 && c[1] < 0xa0) || (c[0] == 0xed && c[1] >= 0xa0) ||
                       (c[0] == 0xf0 && c[1] < 0x90) || (c[0] == 0xf4 && c[1] >= 0x90)))
        return 0; /* overlong, a surrogate, or beyond U+10FFFF */
    return length;
}

/* Replaces control characters by '_' and bytes that are not UTF-8 by '?'. The length stays the
 * same. */
static inline void sa_utf8_clean(char *s, size_t n)
{
    for (size_t i = 0; i < n;) {
        size_t length = sa_utf8_length(s + i, n - i);

        if (length == 0)
            s[i] = '?';
        else if (length == 1 && ((unsigned char)s[i] < ' ' || s[i] == 0x7f))
            s[i] = '_';
        i += length ? length : 1;
    }
}

#endif
