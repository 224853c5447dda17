/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sink: collects output in blocks of 64 KiB and passes them on. If asked, the output is a gzip
 * file of stored (uncompressed) blocks (RFC 1951, RFC 1952). Every reader of gzip accepts such a
 * file, and no compressor is needed. A sink has one mapping, and belongs to one thread.
 *
 * A sink keeps the first error, and drops all output after it. The caller checks once, at the end.
 */
#ifndef SA_SAMPLING_EXPORT_SINK_H
#define SA_SAMPLING_EXPORT_SINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SA_SINK_BLOCK 65535 /* bytes: the most that a stored block of gzip can hold */

struct sa_sink {
    int (*sink)(void *arg, const void *data, size_t bytes); /* 0 or a negative error number */
    void *arg;
    int error; /* the first one, negative; 0: none */
    bool gzip;
    uint32_t crc, crc_table[256]; /* of the output, for gzip */
    uint64_t total;               /* bytes put */
    size_t used;                  /* bytes of the block */
    uint8_t block[SA_SINK_BLOCK];
};

/* Returns a sink that passes its output to sink(arg, ...). The caller closes it. NULL: no memory.
 */
struct sa_sink *sa_sink_open(int (*sink)(void *arg, const void *data, size_t bytes), void *arg,
                             bool gzip);

/* Put bytes, and a string. */
void sa_sink_put(struct sa_sink *out, const void *data, size_t bytes);
void sa_sink_string(struct sa_sink *out, const char *s);

/* Puts formatted text, at most 511 characters; the rest is cut. The formats are those of
 * alloc/base/fmt.h. */
void sa_sink_text(struct sa_sink *out, const char *format, ...);

/* Passes on the last block and frees the sink. Returns 0 or the first error, a negative number. */
int sa_sink_close(struct sa_sink *out);

#endif
