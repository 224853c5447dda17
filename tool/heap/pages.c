/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that is read in lines; see pages.h. */
#include "tool/heap/pages.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define LINE_SHIFT 14
#define LINE_BYTES (1ul << LINE_SHIFT)
#define PLACES_MIN 4096 /* a power of two; 64 MiB in all */
#define LINE_THERE 1    /* in lines: the number of the line, shifted by 2, with these */
#define LINE_READ  2    /* all of it could be read */

/* The memory that programs can still take, in bytes; 0: unknown. */
static uint64_t available_bytes(void)
{
    FILE *file = fopen("/proc/meminfo", "re");
    char line[128];
    unsigned long kib = 0;

    while (file && fgets(line, sizeof(line), file))
        if (sscanf(line, "MemAvailable: %lu", &kib) == 1)
            break;
    if (file)
        fclose(file);
    return (uint64_t)kib << 10;
}

/* Places for a quarter of that. Those that nothing is read into take no memory. */
static size_t places_wanted(void)
{
    uint64_t lines = available_bytes() / 4 >> LINE_SHIFT;
    size_t places = PLACES_MIN;

    while (lines >= 2 * places)
        places *= 2;
    return places;
}

bool sa_pages_open(struct sa_pages *p, struct sa_target *t)
{
    p->target = t;
    for (p->places = places_wanted();; p->places /= 2) {
        p->lines = calloc(p->places, sizeof(*p->lines));
        p->data = mmap(NULL, p->places * LINE_BYTES, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        p->data = p->data != MAP_FAILED ? p->data : NULL;
        if (p->lines && p->data)
            return true;
        sa_pages_close(p);
        if (p->places <= PLACES_MIN)
            return false;
    }
}

void sa_pages_close(struct sa_pages *p)
{
    free(p->lines);
    if (p->data)
        munmap(p->data, p->places * LINE_BYTES);
    p->lines = NULL;
    p->data = NULL;
}

/* The bytes of a line; NULL: not all of them can be read. */
static const char *get_line(struct sa_pages *p, uint64_t line)
{
    size_t place = line & (p->places - 1); /* a heap is mostly in one piece, of less than these */
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
