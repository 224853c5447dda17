/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that is read in lines; see pages.h. */
#include "tool/heap/pages.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define LINE_SHIFT  14
#define LINE_BYTES  (1ul << LINE_SHIFT)
#define PLACES_MIN  64   /* powers of two: 1 MiB, */
#define PLACES_FEW  1024 /* and 16 MiB, if not all can be remembered: more hardly helps then */
#define PLACE_BYTES (LINE_BYTES + 2 * sizeof(uint64_t))
#define LINE_THERE  1 /* in lines: the number of the line, shifted by 2, with these */
#define LINE_READ   2 /* all of it could be read */

bool sa_pages_open(struct sa_pages *p, struct sa_target *t, uint64_t bytes, uint64_t heap)
{
    uint64_t lines = heap >> LINE_SHIFT;

    p->target = t;
    p->places = PLACES_MIN;
    while (p->places < lines && 2 * p->places * PLACE_BYTES <= bytes)
        p->places *= 2;
    p->all = p->places >= lines;
    while (!p->all && p->places > PLACES_FEW)
        p->places /= 2;
    p->lines = calloc(p->places, sizeof(*p->lines));
    p->wanted = calloc(p->places, sizeof(*p->wanted));
    p->data = mmap(NULL, p->places * LINE_BYTES, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    p->data = p->data != MAP_FAILED ? p->data : NULL;
    if (p->lines && p->wanted && p->data)
        return true;
    sa_pages_close(p);
    return false;
}

void sa_pages_close(struct sa_pages *p)
{
    free(p->lines);
    free(p->wanted);
    if (p->data)
        munmap(p->data, p->places * LINE_BYTES);
    p->lines = NULL;
    p->wanted = NULL;
    p->data = NULL;
}

/* The bytes of a line; NULL: it is not remembered, or not all of it can be read. */
static const char *get_line(struct sa_pages *p, uint64_t line)
{
    size_t place = line & (p->places - 1); /* a heap is mostly in one piece */
    char *data = p->data + place * LINE_BYTES;

    if (p->lines[place] >> 2 != line || !(p->lines[place] & LINE_THERE)) {
        if (!p->all && p->wanted[place] != line) {
            p->wanted[place] = line;
            return NULL;
        }
        p->lines[place] = line << 2 | LINE_THERE;
        if (sa_target_read(p->target, line << LINE_SHIFT, data, LINE_BYTES))
            p->lines[place] |= LINE_READ;
    }
    return p->lines[place] & LINE_READ ? data : NULL;
}

const void *sa_pages_look(struct sa_pages *p, uint64_t address, size_t bytes)
{
    size_t offset = address & (LINE_BYTES - 1);
    const char *line = bytes <= LINE_BYTES - offset ? get_line(p, address >> LINE_SHIFT) : NULL;

    return line ? line + offset : NULL;
}

bool sa_pages_read(struct sa_pages *p, uint64_t address, void *buffer, size_t bytes)
{
    char *to = buffer;

    if (bytes && (!address || address + bytes <= address))
        return false;
    while (bytes) {
        size_t offset = address & (LINE_BYTES - 1), n = LINE_BYTES - offset;
        const void *data;

        n = n < bytes ? n : bytes;
        data = sa_pages_look(p, address, n);
        if (data)
            memcpy(to, data, n);
        else if (!sa_target_read(p->target, address, to, n))
            return false;
        to += n;
        address += n;
        bytes -= n;
    }
    return true;
}
