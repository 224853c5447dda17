/* SPDX-License-Identifier: Apache-2.0 */
/* Long ranges of memory; see scan.h. */
#include "tool/leaks/scan.h"
#include "tool/base/io.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ENTRIES     4096         /* of pagemap, read at a time */
#define IN_MEMORY   (3ull << 62) /* present, or swapped */
#define WORD        sizeof(uint64_t)
#define PIECE_BYTES 4096 /* of what cannot be read as a whole */

bool sa_scan_open(struct sa_scan *s, struct sa_target *t)
{
    char path[SA_PROC_PATH];

    memset(s, 0, sizeof(*s));
    s->target = t;
    s->pages = -1;
    s->page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
    s->words = malloc(SA_SCAN_BYTES);
    if (t->live)
        s->pages = open(sa_io_proc_path(path, t->pid, "pagemap"), O_RDONLY | O_CLOEXEC);
    return s->words != NULL;
}

void sa_scan_close(struct sa_scan *s)
{
    if (s->pages >= 0)
        close(s->pages);
    free(s->words);
    memset(s, 0, sizeof(*s));
    s->pages = -1;
}

/* Where the pages that are in memory begin, from an address on, and where they end. False: there
 * are none before the end. */
static bool find_pages(struct sa_scan *s, uint64_t at, uint64_t end, uint64_t *ret_start,
                       uint64_t *ret_end)
{
    uint64_t entries[ENTRIES], page = at / s->page_bytes, last = (end - 1) / s->page_bytes;
    bool found = false;

    *ret_start = at;
    *ret_end = end;
    while (s->pages >= 0 && page <= last) {
        size_t wanted = last - page + 1 < ENTRIES ? last - page + 1 : ENTRIES;
        ssize_t got = pread(s->pages, entries, wanted * WORD, (off_t)(page * WORD));

        if (got < (ssize_t)WORD)
            return true; /* not known: read it all */
        for (size_t i = 0; i < (size_t)got / WORD; i++, page++) {
            if (!found && entries[i] & IN_MEMORY) {
                found = true;
                *ret_start = page * s->page_bytes > at ? page * s->page_bytes : at;
            } else if (found && !(entries[i] & IN_MEMORY)) {
                *ret_end = page * s->page_bytes;
                return true;
            }
        }
        if (found && page * s->page_bytes - *ret_start >= SA_SCAN_BYTES) {
            *ret_end = page * s->page_bytes < end ? page * s->page_bytes : end;
            return true;
        }
    }
    return found || s->pages < 0;
}

/* A part that may have pages which cannot be read. */
static bool scan_part(struct sa_scan *s, uint64_t at, size_t bytes,
                      bool (*words)(void *arg, uint64_t address, const uint64_t *words,
                                    size_t count),
                      void *arg)
{
    size_t step = bytes;

    if (sa_target_read(s->target, at, s->words, bytes)) {
        s->bytes += bytes;
        return words(arg, at, s->words, bytes / WORD);
    }
    for (size_t done = 0; done < bytes; done += step) {
        step = PIECE_BYTES - (at + done) % PIECE_BYTES;
        step = step < bytes - done ? step : bytes - done;
        if (!sa_target_read(s->target, at + done, s->words, step))
            continue;
        s->bytes += step;
        if (!words(arg, at + done, s->words, step / WORD))
            return false;
    }
    return true;
}

bool sa_scan_range(struct sa_scan *s, uint64_t start, uint64_t end,
                   bool (*words)(void *arg, uint64_t address, const uint64_t *words, size_t count),
                   void *arg)
{
    uint64_t at = (start + WORD - 1) & -WORD, from, to;

    end &= -WORD;
    while (at < end && find_pages(s, at, end, &from, &to)) {
        for (at = from; at < to;) {
            size_t bytes = SA_SCAN_BYTES - at % SA_SCAN_BYTES;

            bytes = bytes < to - at ? bytes : to - at;
            if (!scan_part(s, at, bytes, words, arg))
                return false;
            at += bytes;
        }
    }
    return true;
}
