/* SPDX-License-Identifier: Apache-2.0 */
/* Units of sample types; see file_unit.h. No state. */
#include "tool/file/file_unit.h"

#include <math.h>
#include <string.h>

/* Units of time, as profiles name them. */
static const struct {
    const char *name;
    double ns;
} times[] = {{"nanoseconds", 1}, {"microseconds", 1e3}, {"milliseconds", 1e6}, {"seconds", 1e9}};

static double ns_of(const struct sa_file_type *type)
{
    for (size_t i = 0; i < sizeof(times) / sizeof(*times); i++)
        if (strcmp(type->unit, times[i].name) == 0)
            return times[i].ns;
    return 0;
}

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), k = strlen(end);

    return n >= k && strcmp(text + n - k, end) == 0;
}

bool sa_file_is_memory(const struct sa_file_type *type)
{
    return strcmp(type->unit, "bytes") == 0   ? ends_with(type->name, "space")
           : strcmp(type->unit, "count") == 0 ? ends_with(type->name, "objects")
                                              : false;
}

const char *sa_file_word(const struct sa_file_type *type)
{
    if (strcmp(type->unit, "count") == 0 && sa_file_is_memory(type))
        return "blocks";
    return *type->unit && strcmp(type->unit, "count") != 0 ? type->unit : type->name;
}

void sa_file_human(const struct sa_file_type *type, double value, char ret[SA_HUMAN_BYTES])
{
    double ns = ns_of(type);
    char *to = ret;

    if (ns > 0 && value < 0)
        *to++ = '-';
    if (strcmp(type->unit, "bytes") == 0)
        sa_human_bytes(value, ret);
    else if (ns > 0)
        sa_human_time(fabs(value) * ns, to);
    else
        sa_human_count(value, ret);
}

bool sa_file_has_unit(const struct sa_file_type *type)
{
    return strcmp(type->unit, "bytes") == 0 || ns_of(type) > 0;
}
