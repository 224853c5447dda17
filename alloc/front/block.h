/* SPDX-License-Identifier: Apache-2.0 */
/* What the front end knows of a block, and which class serves a request. */
#ifndef SA_FRONT_BLOCK_H
#define SA_FRONT_BLOCK_H

#include "pagemap/span.h"

/* What is known of a pointer. */
struct sa_block {
    unsigned cls;  /* 0: not of a class */
    bool own_page; /* a sampled object: the span is its own, cls the proxy's */
    uint8_t
        origin; /* alloc/base/origin.h; SA_ORIGIN_UNKNOWN of an object of a class without a mark */
    struct sa_span
        *span;    /* of a large or sampled block; of others only if it had to be looked up */
    size_t exact; /* bytes asked for, where that is all that the program may use; else 0 */
};

/* What a program may use of a block. */
size_t sa_block_bytes(struct sa_block b);

/* The smallest class whose objects all have the alignment; 0 if there is none. */
unsigned sa_block_class(size_t size, size_t align);

#endif
