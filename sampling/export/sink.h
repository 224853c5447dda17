/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Output in blocks of 64 KiB to whoever takes them, compressed in form only if asked: a gzip file
 * of stored blocks, which every reader of gzip accepts and which needs no compressor. No memory but
 * its own mapping.
 *
 * The first error is kept, and what is put afterwards is dropped: callers look once, at the end.
 */
#ifndef SA_SAMPLING_EXPORT_SINK_H
#define SA_SAMPLING_EXPORT_SINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SA_SINK_BLOCK 65535 /* the most that a stored block can hold */

struct sa_sink {
    int (*sink)(void *arg, const void *data, size_t bytes); /* 0 or a negative errno */
    void *arg;
    int error; /* 0, or a negative errno */
    bool gzip;
    uint32_t crc, crc_table[256];
    uint64_t total; /* bytes put, before gzip */
    size_t used;
    uint8_t block[SA_SINK_BLOCK];
};

/* NULL: no memory. */
struct sa_sink *sa_sink_open(int (*sink)(void *arg, const void *data, size_t bytes), void *arg,
                             bool gzip);

void sa_sink_put(struct sa_sink *out, const void *data, size_t bytes);
void sa_sink_string(struct sa_sink *out, const char *s);

/* At most 500 characters, in the formats of alloc/base/fmt.h. */
void sa_sink_text(struct sa_sink *out, const char *format, ...);

/* Passes on the rest and frees the memory: 0 or the first error. */
int sa_sink_close(struct sa_sink *out);

#endif
