/* SPDX-License-Identifier: Apache-2.0 */
/* What a writer puts out, in memory. */
#ifndef SA_TEST_COLLECT_H
#define SA_TEST_COLLECT_H

#include "sampling/export/sink.h"
#include "sampling/export/write.h"
#include "test/support/cmocka.h"

#include <stdlib.h>
#include <string.h>

struct collected {
    char *data; /* terminated */
    size_t bytes;
};

static inline int collect_sink(void *arg, const void *data, size_t bytes)
{
    struct collected *c = arg;

    c->data = realloc(c->data, c->bytes + bytes + 1);
    assert_non_null(c->data);
    memcpy(c->data + c->bytes, data, bytes);
    c->bytes += bytes;
    c->data[c->bytes] = '\0';
    return 0;
}

/* The caller frees its data. */
static inline struct collected collect(int (*write)(const struct sa_profile *, struct sa_sink *),
                                       const struct sa_profile *profile)
{
    struct collected c = {calloc(1, 1), 0};
    struct sa_sink *out = sa_sink_open(collect_sink, &c, false);

    assert_non_null(out);
    assert_int_equal(write(profile, out), 0);
    assert_int_equal(sa_sink_close(out), 0);
    assert_non_null(c.data);
    return c;
}

#endif
