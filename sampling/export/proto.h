/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Encodes protocol buffers, as far as profile.proto needs it (protobuf.dev, "Encoding"). A message
 * is built in a buffer of fixed size, and then put into the sink or into the message around it. The
 * caller knows that the buffer is large enough. A message that does not fit ends the program.
 */
#ifndef SA_SAMPLING_EXPORT_PROTO_H
#define SA_SAMPLING_EXPORT_PROTO_H

#include "alloc/base/attrs.h"
#include "alloc/base/fatal.h"
#include "sampling/export/sink.h"

#include <stdint.h>
#include <string.h>

#define SA_PROTO_BYTES 2048 /* the longest message: a sample with 64 locations and its labels */

/* A message. The caller sets `used` to 0 to begin one. */
struct sa_proto {
    size_t used;
    uint8_t bytes[SA_PROTO_BYTES];
};

enum { SA_WIRE_VARINT = 0, SA_WIRE_BYTES = 2 };

/* Encodes a varint: seven bits in each byte, the least significant first. Returns its bytes, at
 * most 10. */
SA_INLINE size_t sa_proto_encode(uint8_t *to, uint64_t v)
{
    size_t n = 0;

    for (; v >= 0x80; v >>= 7)
        to[n++] = (uint8_t)(v | 0x80);
    to[n++] = (uint8_t)v;
    return n;
}

/* Adds a varint to a message. */
static inline void sa_proto_varint(struct sa_proto *m, uint64_t v)
{
    SA_CHECK(m->used + 10 <= sizeof(m->bytes));
    m->used += sa_proto_encode(m->bytes + m->used, v);
}

/* Adds a field with a number. 0 is left out, because an absent field has the value 0. */
static inline void sa_proto_number(struct sa_proto *m, unsigned field, uint64_t v)
{
    if (v) {
        sa_proto_varint(m, (uint64_t)field << 3 | SA_WIRE_VARINT);
        sa_proto_varint(m, v);
    }
}

/* Adds a field with a message, or with packed numbers. */
static inline void sa_proto_message(struct sa_proto *m, unsigned field,
                                    const struct sa_proto *inner)
{
    sa_proto_varint(m, (uint64_t)field << 3 | SA_WIRE_BYTES);
    sa_proto_varint(m, inner->used);
    SA_CHECK(inner->used <= sizeof(m->bytes) - m->used);
    memcpy(m->bytes + m->used, inner->bytes, inner->used);
    m->used += inner->used;
}

/* Put a field of the outermost message into the sink: a number, or bytes (a string, a message). */
static inline void sa_proto_put_number(struct sa_sink *out, unsigned field, uint64_t v)
{
    struct sa_proto m;

    m.used = 0;
    sa_proto_number(&m, field, v);
    sa_sink_put(out, m.bytes, m.used);
}

static inline void sa_proto_put_bytes(struct sa_sink *out, unsigned field, const void *data,
                                      size_t bytes)
{
    uint8_t head[20];
    size_t n = sa_proto_encode(head, (uint64_t)field << 3 | SA_WIRE_BYTES);

    n += sa_proto_encode(head + n, bytes);
    sa_sink_put(out, head, n);
    sa_sink_put(out, data, bytes);
}

#endif
