/* SPDX-License-Identifier: Apache-2.0 */
/* The bounded formatter; see fmt.h for the formats. No shared state. */
#include "alloc/base/fmt.h"

#include <stdint.h>
#include <string.h>

void sa_fmt_init(struct sa_fmt *f, char *buf, size_t cap)
{
    f->buf = buf;
    f->cap = cap;
    f->len = 0;
    f->truncated = false;
    if (cap)
        buf[0] = '\0';
}

/* Adds a character, or notes that it does not fit. */
static void fmt_put(struct sa_fmt *f, char c)
{
    if (f->len + 1 < f->cap) {
        f->buf[f->len++] = c;
        f->buf[f->len] = '\0';
    } else {
        f->truncated = true;
    }
}

/* Adds n characters, padded to `width` with `fill` on the left or blanks on the right. */
static void fmt_pad(struct sa_fmt *f, const char *s, size_t n, int width, bool left, char fill)
{
    int pad = width > (int)n ? width - (int)n : 0;

    if (!left && fill == '0' && n && s[0] == '-') { /* the sign precedes the zeros */
        fmt_put(f, '-');
        s++;
        n--;
    }
    if (!left)
        while (pad-- > 0)
            fmt_put(f, fill);
    for (size_t i = 0; i < n; i++)
        fmt_put(f, s[i]);
    if (left)
        while (pad-- > 0)
            fmt_put(f, ' ');
}

/* Writes the digits of v so that they end before `end`, which at most 64 bytes precede. Returns the
 * first one. */
static char *fmt_digits(char *end, uint64_t v, unsigned base)
{
    char *p = end;

    do {
        *--p = "0123456789abcdef"[v % base];
        v /= base;
    } while (v);
    return p;
}

static void fmt_double(struct sa_fmt *f, double x, int precision, int width, bool left)
{
    char tmp[64], *end = tmp + sizeof(tmp), *p = end;
    bool negative = x < 0;
    uint64_t scale = 1, whole, v;

    if (x != x) {
        fmt_pad(f, "nan", 3, width, left, ' ');
        return;
    }
    if (precision > 9)
        precision = 9;
    for (int i = 0; i < precision; i++)
        scale *= 10;
    if (negative)
        x = -x;
    if (x > 1e18) { /* beyond the documented range: not shown as a number */
        fmt_pad(f, negative ? "-inf" : "inf", negative ? 4 : 3, width, left, ' ');
        return;
    }
    whole = (uint64_t)x;
    v = (uint64_t)((x - (double)whole) * (double)scale + 0.5);
    if (v >= scale) { /* rounding reached the next whole number */
        v -= scale;
        whole++;
    }
    for (int i = 0; i < precision; i++) {
        *--p = (char)('0' + v % 10);
        v /= 10;
    }
    if (precision)
        *--p = '.';
    p = fmt_digits(p, whole, 10);
    if (negative)
        *--p = '-';
    fmt_pad(f, p, (size_t)(end - p), width, left, ' ');
}

void sa_fmt_addv(struct sa_fmt *f, const char *s, va_list ap)
{
    for (; *s; s++) {
        char tmp[64], *end = tmp + sizeof(tmp), *p;
        bool left = false;
        char fill = ' ';
        int width = 0, precision = -1, longs = 0;
        bool size = false;

        if (*s != '%') {
            fmt_put(f, *s);
            continue;
        }
        s++;
        for (; *s == '-' || *s == '0'; s++) {
            if (*s == '-')
                left = true;
            else
                fill = '0';
        }
        if (*s == '*') {
            width = va_arg(ap, int);
            s++;
        }
        for (; *s >= '0' && *s <= '9'; s++)
            width = width * 10 + (*s - '0');
        if (*s == '.')
            for (precision = 0, s++; *s >= '0' && *s <= '9'; s++)
                precision = precision * 10 + (*s - '0');
        for (; *s == 'l' || *s == 'z'; s++) {
            if (*s == 'z')
                size = true;
            else
                longs++;
        }
        switch (*s) {
        case 'd': {
            int64_t v = size || longs ? (int64_t)va_arg(ap, long) : va_arg(ap, int);
            p = fmt_digits(end, v < 0 ? 0 - (uint64_t)v : (uint64_t)v, 10);
            if (v < 0)
                *--p = '-';
            fmt_pad(f, p, (size_t)(end - p), width, left, fill);
            break;
        }
        case 'u':
        case 'x': {
            uint64_t v = size || longs ? va_arg(ap, unsigned long) : va_arg(ap, unsigned);
            p = fmt_digits(end, v, *s == 'u' ? 10 : 16);
            fmt_pad(f, p, (size_t)(end - p), width, left, fill);
            break;
        }
        case 'p':
            p = fmt_digits(end, (uintptr_t)va_arg(ap, void *), 16);
            *--p = 'x';
            *--p = '0';
            fmt_pad(f, p, (size_t)(end - p), width, left, ' ');
            break;
        case 'm':
            fmt_double(f, (double)va_arg(ap, size_t) / 1048576.0, 1, width, left);
            break;
        case 'F':
            fmt_double(f, va_arg(ap, double), precision < 0 ? 1 : precision, width, left);
            break;
        case 's': {
            const char *str = va_arg(ap, const char *);
            fmt_pad(f, str, strlen(str), width, left, ' ');
            break;
        }
        case 'c':
            fmt_put(f, (char)va_arg(ap, int));
            break;
        case '%':
            fmt_put(f, '%');
            break;
        default: /* an unknown format appears in the text, so that the error is seen */
            fmt_put(f, '%');
            if (!*s)
                return;
            fmt_put(f, *s);
            break;
        }
    }
}

void sa_fmt_add(struct sa_fmt *f, const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    sa_fmt_addv(f, format, ap);
    va_end(ap);
}
