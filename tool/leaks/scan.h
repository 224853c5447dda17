/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads long ranges of a target's memory word by word. Of a process, pages that hold no memory are
 * left out: they read as zero, and reading them would make the kernel provide tables for them.
 */
#ifndef SA_TOOL_LEAKS_SCAN_H
#define SA_TOOL_LEAKS_SCAN_H

#include "tool/target/target.h"

#define SA_SCAN_BYTES (1u << 18) /* read at a time */

struct sa_scan {
    struct sa_target *target;
    int pages; /* /proc/PID/pagemap; negative: all pages are read */
    uint64_t page_bytes;
    uint64_t *words; /* SA_SCAN_BYTES */
    uint64_t bytes;  /* read so far */
};

/* False: no memory. */
bool sa_scan_open(struct sa_scan *s, struct sa_target *t);
void sa_scan_close(struct sa_scan *s);

/* Passes the words of a range on, `count` at a time, with the address of the first. What cannot be
 * read is left out. False: the callback returned false. */
bool sa_scan_range(struct sa_scan *s, uint64_t start, uint64_t end,
                   bool (*words)(void *arg, uint64_t address, const uint64_t *words, size_t count),
                   void *arg);

#endif
