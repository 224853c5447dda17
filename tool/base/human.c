/* SPDX-License-Identifier: Apache-2.0 */
/* Texts for people; see human.h. A column is a character of UTF-8. No state. */
#include "tool/base/human.h"

#include "sampling/export/summary.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define CUT "..."

void sa_human_bytes(double bytes, char ret[SA_HUMAN_BYTES])
{
    static const char units[] = "KMGTPE";
    int unit = -1;

    while (unit < 5 && fabs(bytes) >= 1023.95) {
        bytes /= 1024;
        unit++;
    }
    if (!isfinite(bytes))
        snprintf(ret, SA_HUMAN_BYTES, "unknown");
    else if (unit < 0)
        snprintf(ret, SA_HUMAN_BYTES, "%.0f B", bytes);
    else
        snprintf(ret, SA_HUMAN_BYTES, "%.1f %ciB", bytes, units[unit]);
}

void sa_human_count(double count, char ret[SA_HUMAN_BYTES])
{
    if (isfinite(count))
        snprintf(ret, SA_HUMAN_BYTES, fabs(count) < 1e9 ? "%.0f" : "%.3e", count);
    else
        snprintf(ret, SA_HUMAN_BYTES, "unknown");
}

void sa_human_time(double ns, char ret[SA_HUMAN_BYTES])
{
    double span;
    const char *unit = sa_summary_life(ns, &span);

    snprintf(ret, SA_HUMAN_BYTES, span < 99.95 && span != floor(span) ? "%.1f %s" : "%.0f %s", span,
             unit);
}

static bool is_inner(char c)
{
    return ((unsigned char)c & 0xc0) == 0x80; /* of a character of UTF-8, not its first byte */
}

size_t sa_human_columns(const char *s)
{
    size_t count = 0;

    for (; *s; s++)
        count += !is_inner(*s);
    return count;
}

/* Copies the first or last `columns` characters. */
static const char *skip(const char *s, size_t columns)
{
    while (*s && (columns || is_inner(*s)))
        columns -= !is_inner(*s++);
    return s;
}

/* The end of "operator<", "operator->", "operator()" and the like, whose brackets are none. */
static const char *operator_end(const char *s)
{
    static const char word[] = "operator";

    if (strncmp(s, word, sizeof(word) - 1) != 0)
        return s;
    s += sizeof(word) - 1;
    if (strncmp(s, "()", 2) == 0)
        return s + 2;
    return s + strspn(s, "<>-=");
}

/* How deeply brackets are nested. */
static unsigned nesting(const char *s, char open, char close)
{
    unsigned depth = 0, most = 0;

    while (*s) {
        const char *end = operator_end(s);

        if (end != s) {
            s = end;
            continue;
        }
        if (*s == open && ++depth > most)
            most = depth;
        else if (*s == close && depth)
            depth--;
        s++;
    }
    return most;
}

/* Replaces what lies in brackets below a depth by dots. The result is not longer, but for brackets
 * with one or two letters, which stay as they are. */
static void empty(const char *from, char open, char close, unsigned below, char *to)
{
    unsigned depth = 0;
    char *start = to; /* of the bracket that is left out */

    while (*from) {
        const char *end = operator_end(from);

        if (end != from) {
            memmove(to, from, (size_t)(end - from));
            to += end - from;
            from = end;
            continue;
        }
        if (*from == close && depth && depth-- == below && (size_t)(to - start) > sizeof(CUT) - 1) {
            memcpy(start, CUT, sizeof(CUT) - 1);
            to = start + sizeof(CUT) - 1;
        }
        *to++ = *from;
        if (*from == open && ++depth == below)
            start = to;
        from++;
    }
    *to = '\0';
}

/* Leaves the middle out. */
static void cut(char *s, size_t columns)
{
    size_t all = sa_human_columns(s), head = (columns - (sizeof(CUT) - 1)) / 2;
    char *to = s + (skip(s, head) - s);
    const char *tail = skip(s, all - (columns - (sizeof(CUT) - 1) - head));

    memcpy(to, CUT, sizeof(CUT) - 1);
    memmove(to + sizeof(CUT) - 1, tail, strlen(tail) + 1);
}

void sa_human_name(const char *name, unsigned columns, char *ret, size_t cap)
{
    snprintf(ret, cap, "%s", name);
    if (!columns)
        return;
    for (unsigned below = nesting(ret, '<', '>'); below && sa_human_columns(ret) > columns; below--)
        empty(ret, '<', '>', below, ret);
    for (unsigned below = nesting(ret, '(', ')'); below && sa_human_columns(ret) > columns; below--)
        empty(ret, '(', ')', below, ret);
    if (sa_human_columns(ret) > columns)
        cut(ret, columns);
}

void sa_human_path(const char *path, unsigned columns, char *ret, size_t cap)
{
    size_t all = sa_human_columns(path);

    if (!columns || all <= columns)
        snprintf(ret, cap, "%s", path);
    else
        snprintf(ret, cap, CUT "%s", skip(path, all - columns + sizeof(CUT) - 1));
}
