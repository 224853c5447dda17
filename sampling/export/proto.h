/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The wire format of protocol buffers, as little of it as profile.proto needs: a message is built
 * in a buffer of fixed size that its caller knows to be enough, and then put into the output or
 * into the message around it.
 */
#ifndef SA_SAMPLING_EXPORT_PROTO_H
#define SA_SAMPLING_EXPORT_PROTO_H

#include "alloc/base/attrs.h"
#include "alloc/base/fatal.h"
#include "sampling/export/sink.h"

#include <stdint.h>
#include <string.h>

#define SA_PROTO_BYTES 2048

struct sa_proto {
    size_t used;
    uint8_t bytes[SA_PROTO_BYTES];
};

enum { SA_WIRE_VARINT = 0, SA_WIRE_BYTES = 2 };

/* Least significant seven bits first; at most 10 bytes. */
SA_INLINE size_t sa_proto_encode(uint8_t *to, uint64_t v)
{
    size_t n = 0;

    for (; v >= 0x80; v >>= 7)
        to[n++] = (uint8_t)(v | 0x80);
    to[n++] = (uint8_t)v;
    return n;
}

static inline void sa_proto_varint(struct sa_proto *m, uint64_t v)
{
    SA_CHECK(m->used + 10 <= sizeof(m->bytes));
    m->used += sa_proto_encode(m->bytes + m->used, v);
}

/* A number; 0 is what a field has that is not there. */
static inline void sa_proto_number(struct sa_proto *m, unsigned field, uint64_t v)
{
    if (v) {
        sa_proto_varint(m, (uint64_t)field << 3 | SA_WIRE_VARINT);
        sa_proto_varint(m, v);
    }
}

static inline void sa_proto_message(struct sa_proto *m, unsigned field,
                                    const struct sa_proto *inner)
{
    sa_proto_varint(m, (uint64_t)field << 3 | SA_WIRE_BYTES);
    sa_proto_varint(m, inner->used);
    SA_CHECK(inner->used <= sizeof(m->bytes) - m->used);
    memcpy(m->bytes + m->used, inner->bytes, inner->used);
    m->used += inner->used;
}

/* To the output, as fields of the outermost message. */
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
