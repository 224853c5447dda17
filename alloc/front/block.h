/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a pointer is, and which class serves a request.
 *
 * The slow paths of free, realloc and malloc_usable_size look a pointer up once. The result says
 * of which kind the block is, and every later step follows from the kind alone. The caller owns the
 * block, so that the result stays true until the caller ends it.
 */
#ifndef SA_FRONT_BLOCK_H
#define SA_FRONT_BLOCK_H

#include "pagemap/span.h"

enum sa_block_kind {
    SA_BLOCK_NONE,    /* not the start of a block in use */
    SA_BLOCK_OBJECT,  /* an object of a size class, on a span of objects */
    SA_BLOCK_SAMPLED, /* a sampled block of a size class, on pages of its own (sampled heap) */
    SA_BLOCK_GUARDED, /* the same in a guarded slot; without a sample if it is a watched block */
    SA_BLOCK_LARGE,   /* a span of the ordinary heap, sampled or not */
};

/* The result of a lookup. */
struct sa_block {
    uint8_t kind;         /* enum sa_block_kind */
    uint8_t origin;       /* alloc/base/origin.h; SA_ORIGIN_UNKNOWN of an OBJECT without a canary */
    unsigned cls;         /* size class, for SAMPLED and GUARDED that of the proxy; LARGE: 0 */
    struct sa_span *span; /* for an OBJECT it is shared with other objects */
    size_t exact; /* hardened: the size asked for, if the program may use no more; otherwise 0 */
};

/*
 * Looks up a block that the program passes as its own. Hardened, the slack behind the block is
 * checked as well. Ends the program with a message if p is not the start of a block in use. `what`
 * names the error in the message, as for sa_fatal.
 */
void sa_block_find(const void *p, const char *what, struct sa_block *ret);

/* The same for any pointer, without checks and without a message: kind NONE if p is no block.
 * `exact` stays 0. SAMPLED with class 0 is a block that another thread is freeing. */
void sa_block_try(const void *p, struct sa_block *ret);

/* Bytes that the program may use of a block in use. */
size_t sa_block_bytes(const struct sa_block *b);

/* The smallest class whose objects all have the alignment; 0 if there is none. */
unsigned sa_block_class(size_t size, size_t align);

#endif
