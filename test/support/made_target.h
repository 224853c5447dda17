/* SPDX-License-Identifier: Apache-2.0 */
/* A target whose memory is a list of arrays of the test, each at an address of its own. */
#ifndef TEST_SUPPORT_MADE_TARGET_H
#define TEST_SUPPORT_MADE_TARGET_H

#include "tool/target/target.h"

#include <string.h>

#define MADE_AREAS 16

static struct made_area {
    struct sa_area area;
    const void *bytes; /* NULL: it cannot be read */
} made_areas[MADE_AREAS];
static size_t made_count;

static inline bool made_read(struct sa_target *t, uint64_t address, void *buffer, size_t bytes)
{
    char *to = buffer;

    (void)t;
    for (size_t i = 0; bytes && i < made_count; i++) {
        const struct made_area *m = &made_areas[i];
        size_t n = address < m->area.end ? m->area.end - address : 0;

        if (address < m->area.start || !n)
            continue;
        if (!m->bytes)
            return false;
        n = n < bytes ? n : bytes;
        memcpy(to, (const char *)m->bytes + (address - m->area.start), n);
        to += n;
        address += n;
        bytes -= n;
    }
    return !bytes;
}

static inline bool made_area(struct sa_target *t, size_t i, struct sa_area *ret)
{
    (void)t;
    if (i < made_count)
        *ret = made_areas[i].area;
    return i < made_count;
}

static const struct sa_target_kind made_kind = {.read = made_read, .area = made_area};

/* Areas are added in the order of addresses. */
static inline void made_add(uint64_t start, uint64_t bytes, unsigned access, const void *content)
{
    const struct sa_area *before = made_count ? &made_areas[made_count - 1].area : NULL;
    bool guarded = before && before->end == start && !(before->access & SA_ACCESS_READ);

    made_areas[made_count++] =
        (struct made_area){{start, start + bytes, access, "", guarded}, access ? content : NULL};
}

#endif
