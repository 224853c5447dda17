/* SPDX-License-Identifier: Apache-2.0 */
/* Reads allocation traces; see trace_reader.h, and trace_format.h for the format. */
#include "perf/fragmentation/trace_reader.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

void trace_open(struct trace *t, const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    void *p = MAP_FAILED;

    if (fd >= 0 && fstat(fd, &st) == 0 && st.st_size >= TRACE_MAGIC_BYTES)
        p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (p == MAP_FAILED || memcmp(p, TRACE_MAGIC, TRACE_MAGIC_BYTES) != 0) {
        fprintf(stderr, "%s is no trace\n", path);
        exit(2);
    }
    close(fd);
    t->begin = p;
    t->end = t->begin + st.st_size;
    trace_rewind(t);
}

void trace_rewind(struct trace *t)
{
    t->at = t->begin + TRACE_MAGIC_BYTES;
    t->address = 0;
}

static uint64_t get_number(struct trace *t)
{
    uint64_t n = 0;
    unsigned shift = 0;
    uint8_t byte = 128;

    while (byte & 128 && t->at < t->end) {
        byte = *t->at++;
        n |= (uint64_t)(byte & 127) << (shift & 63);
        shift += 7;
    }
    return n;
}

static uint64_t get_address(struct trace *t)
{
    uint64_t n = get_number(t);

    t->address += n >> 1 ^ -(n & 1);
    return t->address;
}

bool trace_next(struct trace *t, struct trace_record *r)
{
    /* The last record may be a part of one. A whole one is no longer than this. */
    if (t->end - t->at < TRACE_RECORD_MAX) {
        size_t left = (size_t)(t->end - t->at);

        if (!left || t->end[-1] & 128)
            return false;
    }
    *r = (struct trace_record){.op = (enum trace_op) * t->at++};
    switch (r->op) {
    case TRACE_ALIGNED:
        r->log_align = (unsigned)get_number(t);
        /* fall through */
    case TRACE_ALLOC:
        r->size = get_number(t);
        r->address = get_address(t);
        return true;
    case TRACE_REALLOC:
        r->before = get_address(t);
        r->size = get_number(t);
        r->address = get_address(t);
        return true;
    case TRACE_FREE:
        r->address = get_address(t);
        return true;
    case TRACE_CPU:
    case TRACE_TIME:
        r->number = get_number(t);
        return true;
    }
    return false;
}
