/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the single samples of a profile (proto_singles.h). */
#include "sampling/export/proto_singles.h"

#include "sampling/export/proto.h"

#define NS_PER_MS    1000000
#define TRIPLE_BYTES 30 /* at most */

static uint64_t zigzag(uint64_t difference)
{
    return difference << 1 ^ -(difference >> 63);
}

void sa_proto_put_singles(const struct sa_profile *profile, struct sa_sink *out)
{
    bool has = profile->type == SALLOC_PROFILE_HEAP || profile->type == SALLOC_PROFILE_PEAK_HEAP;
    uint64_t number = 0, ms = 0;
    struct sa_proto m;

    m.used = 0;
    for (size_t i = 0; has && i < profile->single_count; i++) {
        const struct sa_sample_copy *s = &profile->singles[i];

        if (!s->number || s->key.p >= 1 || s->bucket == SIZE_MAX)
            continue;
        sa_proto_varint(&m, s->bucket);
        sa_proto_varint(&m, zigzag(s->number - number));
        sa_proto_varint(&m, zigzag(s->time_ns / NS_PER_MS - ms));
        number = s->number;
        ms = s->time_ns / NS_PER_MS;
        if (m.used + TRIPLE_BYTES > sizeof(m.bytes)) {
            sa_proto_put_bytes(out, SA_PROTO_SINGLES, m.bytes, m.used);
            m.used = 0;
        }
    }
    if (m.used)
        sa_proto_put_bytes(out, SA_PROTO_SINGLES, m.bytes, m.used);
}
