/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers, times and sizes; see units.h. strtod would ask the locale what a decimal point is. */
#include "tool/base/units.h"

#include <stddef.h>
#include <string.h>

#define TIME_MAX (3652.0 * 86400)

static const struct {
    char name[4];
    double seconds;
} units[] = {{"us", 1e-6}, {"ms", 1e-3}, {"s", 1}, {"m", 60}, {"h", 3600}, {"d", 86400}};

/* Parses digits, with others behind a point or without. Returns what follows; NULL: there are
 * none. */
static const char *parse_number(const char *p, double *ret)
{
    const char *start = p;
    double place = 1;

    *ret = 0;
    for (; *p >= '0' && *p <= '9'; p++)
        *ret = *ret * 10 + (*p - '0');
    if (p == start)
        return NULL;
    if (*p != '.')
        return p;
    for (p++; *p >= '0' && *p <= '9'; p++)
        *ret += (*p - '0') * (place /= 10);
    return p[-1] == '.' ? NULL : p;
}

/* Parses a unit, which ends at a digit or at the end. Returns what follows; NULL: it is none. */
static const char *parse_unit(const char *p, double *ret)
{
    size_t n = strcspn(p, "0123456789.");

    for (size_t i = 0; i < sizeof(units) / sizeof(*units); i++) {
        if (strlen(units[i].name) == n && memcmp(p, units[i].name, n) == 0) {
            *ret = units[i].seconds;
            return p + n;
        }
    }
    return NULL;
}

bool sa_units_time(const char *text, double *ret_seconds)
{
    double number, unit = 1, sum = 0;
    const char *p = parse_number(text, &number);

    if (p && !*p) {
        *ret_seconds = number;
        return number <= TIME_MAX;
    }
    for (; p && *p; p = *p ? parse_number(p, &number) : p) {
        p = parse_unit(p, &unit);
        if (!p)
            return false;
        sum += number * unit;
        if (!*p) {
            *ret_seconds = sum;
            return sum <= TIME_MAX;
        }
    }
    return false;
}

/* Parses digits. Returns what follows; NULL: there are none, or too many. */
static const char *parse_digits(const char *text, uint64_t *ret)
{
    const char *p = text;

    for (*ret = 0; *p >= '0' && *p <= '9'; p++) {
        uint64_t digit = (uint64_t)(*p - '0');

        if (*ret > (UINT64_MAX - digit) / 10)
            return NULL;
        *ret = *ret * 10 + digit;
    }
    return p == text ? NULL : p;
}

bool sa_units_number(const char *text, uint64_t most, uint64_t *ret)
{
    const char *end = parse_digits(text, ret);

    return end && !*end && *ret <= most;
}

bool sa_units_bytes(const char *text, uint64_t *ret)
{
    static const char suffixes[] = "kmg";
    uint64_t bytes;
    const char *p = parse_digits(text, &bytes), *suffix;
    unsigned shift = 0;

    if (!p)
        return false;
    suffix = *p ? strchr(suffixes, *p | 0x20) : NULL;
    if (*p && (!suffix || p[1]))
        return false;
    if (suffix)
        shift = 10 * (unsigned)(suffix - suffixes + 1);
    if (bytes > UINT64_MAX >> shift)
        return false;
    *ret = bytes << shift;
    return true;
}
