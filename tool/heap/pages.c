/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that is read in lines; see pages.h. */
#include "tool/heap/pages.h"

#include "alloc/base/rng.h"

#include <stdlib.h>
#include <string.h>

#define LINE_SHIFT 14
#define LINE_BYTES (1ul << LINE_SHIFT)
#define PLACES     4096 /* a power of two; 64 MiB in all */
#define LINE_THERE 1    /* in lines: the number of the line, shifted by 2, with these */
#define LINE_READ  2    /* all of it could be read */

bool sa_pages_open(struct sa_pages *p, struct sa_target *t)
{
    p->target = t;
    p->lines = calloc(PLACES, sizeof(*p->lines));
    p->data = malloc(PLACES * LINE_BYTES);
    if (p->lines && p->data)
        return true;
    sa_pages_close(p);
    return false;
}

void sa_pages_close(struct sa_pages *p)
{
    free(p->lines);
    free(p->data);
    memset(p, 0, sizeof(*p));
}

/* The bytes of a line; NULL: not all of them can be read. */
static const char *get_line(struct sa_pages *p, uint64_t line)
{
    size_t place = sa_rng_mix(line) & (PLACES - 1);
    char *data = p->data + place * LINE_BYTES;

    if (p->lines[place] >> 2 != line || !(p->lines[place] & LINE_THERE)) {
        p->lines[place] = line << 2 | LINE_THERE;
        if (sa_target_read(p->target, line << LINE_SHIFT, data, LINE_BYTES))
            p->lines[place] |= LINE_READ;
    }
    return p->lines[place] & LINE_READ ? data : NULL;
}

bool sa_pages_read(struct sa_pages *p, uint64_t address, void *buffer, size_t bytes)
{
    char *to = buffer;

    if (bytes && (!address || address + bytes <= address))
        return false;
    while (bytes) {
        size_t offset = address & (LINE_BYTES - 1), n = LINE_BYTES - offset;
        const char *line = get_line(p, address >> LINE_SHIFT);

        n = n < bytes ? n : bytes;
        if (line)
            memcpy(to, line + offset, n);
        else if (!sa_target_read(p->target, address, to, n))
            return false;
        to += n;
        address += n;
        bytes -= n;
    }
    return true;
}
