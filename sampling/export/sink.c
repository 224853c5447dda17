/* SPDX-License-Identifier: Apache-2.0 */
/* Collects output in blocks, and frames them as a gzip file (sink.h). */
#include "sampling/export/sink.h"

#include "alloc/base/bits.h"
#include "alloc/base/fatal.h"
#include "alloc/base/fmt.h"
#include "alloc/os/vm.h"

#include <string.h>

#define SINK_BYTES (((sizeof(struct sa_sink) + 65535) / 65536) * 65536)

SA_STATIC_ASSERT(SINK_BYTES == 128 << 10, "doc/profiles.md says so");

/* Makes the table of CRC-32, whose polynomial is 0xedb88320 with the lowest bit first (RFC 1952).
 */
static void crc_init(struct sa_sink *out)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;

        for (int bit = 0; bit < 8; bit++)
            c = c >> 1 ^ (c & 1 ? 0xedb88320u : 0);
        out->crc_table[i] = c;
    }
    out->crc = ~0u;
}

/* Passes bytes on, unless an error came before. */
static void pass_on(struct sa_sink *out, const void *data, size_t bytes)
{
    if (!out->error)
        out->error = out->sink(out->arg, data, bytes);
}

struct sa_sink *sa_sink_open(int (*sink)(void *, const void *, size_t), void *arg, bool gzip)
{
    /* Magic number, deflate, no flags, no time, no extra flags, Unix. */
    static const uint8_t header[10] = {0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3};
    struct sa_sink *out = sa_vm_map(NULL, SINK_BYTES, "salloc output");

    if (!out)
        return NULL;
    out->sink = sink;
    out->arg = arg;
    out->gzip = gzip;
    if (gzip) {
        crc_init(out);
        pass_on(out, header, sizeof(header));
    }
    return out;
}

/* Passes the block on, with the header of a stored block if the output is gzip. */
static void flush(struct sa_sink *out, bool last)
{
    SA_DCHECK(out->used <= SA_SINK_BLOCK);
    if (out->gzip) { /* BFINAL and BTYPE 00, then the length and its complement (RFC 1951, 3.2.4) */
        uint8_t head[5] = {last, (uint8_t)out->used, (uint8_t)(out->used >> 8), (uint8_t)~out->used,
                           (uint8_t)(~out->used >> 8)};

        for (size_t i = 0; i < out->used; i++)
            out->crc = out->crc >> 8 ^ out->crc_table[(out->crc ^ out->block[i]) & 255];
        pass_on(out, head, sizeof(head));
    }
    if (out->used)
        pass_on(out, out->block, out->used);
    out->used = 0;
}

void sa_sink_put(struct sa_sink *out, const void *data, size_t bytes)
{
    const char *from = data;

    SA_DCHECK(out->used < SA_SINK_BLOCK);
    out->total += bytes;
    while (bytes) {
        size_t n = SA_SINK_BLOCK - out->used;

        if (n > bytes)
            n = bytes;
        memcpy(out->block + out->used, from, n);
        out->used += n;
        from += n;
        bytes -= n;
        if (out->used == SA_SINK_BLOCK)
            flush(out, false);
    }
}

void sa_sink_string(struct sa_sink *out, const char *s)
{
    sa_sink_put(out, s, strlen(s));
}

void sa_sink_text(struct sa_sink *out, const char *format, ...)
{
    char line[512];
    struct sa_fmt f;
    va_list ap;

    sa_fmt_init(&f, line, sizeof(line));
    va_start(ap, format);
    sa_fmt_addv(&f, format, ap);
    va_end(ap);
    sa_sink_put(out, line, f.len);
}

int sa_sink_close(struct sa_sink *out)
{
    int error;

    flush(out, true);
    if (out->gzip) { /* CRC and length, little-endian as x86-64 and aarch64 are */
        uint32_t tail[2] = {~out->crc, (uint32_t)out->total};

        pass_on(out, tail, sizeof(tail));
    }
    error = out->error;
    sa_vm_unmap(out, SINK_BYTES);
    return error;
}
