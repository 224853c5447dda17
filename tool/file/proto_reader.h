/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decodes protocol buffers (protobuf.dev, "Encoding"). A reader never leaves its bytes. After the
 * first damage `damaged` stays set, and there are no further fields.
 */
#ifndef SA_TOOL_FILE_PROTO_READER_H
#define SA_TOOL_FILE_PROTO_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sa_proto_reader {
    const uint8_t *at, *end;
    bool damaged;
};

/* A field: a number, or bytes (a string, a message, packed numbers). */
struct sa_proto_field {
    uint32_t field;
    bool is_bytes;
    uint64_t number;
    struct sa_proto_reader bytes;
};

static inline struct sa_proto_reader sa_proto_reader(const void *data, size_t bytes)
{
    return (struct sa_proto_reader){data, (const uint8_t *)data + bytes, false};
}

/* Reads a varint of at most 10 bytes. */
static inline uint64_t sa_proto_read_varint(struct sa_proto_reader *r)
{
    uint64_t v = 0;

    for (unsigned shift = 0; shift < 70 && r->at < r->end; shift += 7) {
        uint8_t byte = *r->at++;

        if (shift < 64)
            v |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return v;
    }
    r->damaged = true;
    r->at = r->end;
    return 0;
}

/* Reads n bytes as they are; false: there are fewer. */
static inline bool sa_proto_skip(struct sa_proto_reader *r, uint64_t n)
{
    if (n <= (uint64_t)(r->end - r->at)) {
        r->at += n;
        return true;
    }
    r->damaged = true;
    r->at = r->end;
    return false;
}

/* Stores the next field. Fields of a fixed width, which profile.proto does not have, get the
 * number 0. False: the end, or damage. */
static inline bool sa_proto_next(struct sa_proto_reader *r, struct sa_proto_field *ret)
{
    uint64_t tag, bytes;

    if (r->damaged || r->at >= r->end)
        return false;
    tag = sa_proto_read_varint(r);
    *ret = (struct sa_proto_field){.field = (uint32_t)(tag >> 3)};
    if (r->damaged || tag >> 3 == 0 || tag >> 3 > (1u << 29) - 1) {
        r->damaged = true;
        return false;
    }
    switch (tag & 7) {
    case 0:
        ret->number = sa_proto_read_varint(r);
        break;
    case 1:
        ret->field = 0;
        sa_proto_skip(r, 8);
        break;
    case 2:
        bytes = sa_proto_read_varint(r);
        ret->is_bytes = true;
        ret->bytes.at = r->at;
        if (!r->damaged && sa_proto_skip(r, bytes))
            ret->bytes.end = r->at;
        break;
    case 5:
        ret->field = 0;
        sa_proto_skip(r, 4);
        break;
    default:
        r->damaged = true;
    }
    return !r->damaged;
}

#endif
