/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds out what a pointer is, and which class serves a request.
 *
 * The slow paths of free, realloc and malloc_usable_size look a pointer up once. The result names
 * the kind of the block, and every later step follows from the kind alone. The caller owns the
 * block, so that the result stays true until the caller ends the block. No shared words: the
 * functions read the radix map and the span.
 */
#ifndef SA_FRONT_BLOCK_H
#define SA_FRONT_BLOCK_H

#include "pagemap/span.h"

enum sa_block_kind {
    SA_BLOCK_NONE,    /* not the start of a block in use */
    SA_BLOCK_OBJECT,  /* an object of a size class, on a span of objects */
    SA_BLOCK_SAMPLED, /* a sampled block of a size class, on pages of its own (sampled heap) */
    SA_BLOCK_GUARDED, /* the same in a guarded slot; a watched block has no sample */
    SA_BLOCK_LARGE,   /* a span of the ordinary heap, sampled or not */
};

/* The result of a lookup. */
struct sa_block {
    uint8_t kind; /* enum sa_block_kind */
    /* alloc/base/origin.h; SA_ORIGIN_UNKNOWN for an OBJECT without a canary */
    uint8_t origin;
    unsigned cls;         /* size class; for SAMPLED and GUARDED that of the proxy, for LARGE 0 */
    struct sa_span *span; /* an OBJECT shares it with other objects */
    size_t exact; /* hardened: the requested size, if the program may use no more; otherwise 0 */
};

/*
 * Looks up a block that the program passes as its own. In the hardened mode the slack behind the
 * block is checked as well. If p is not the start of a block in use, the program ends with a
 * message, in which `what` names the error as for sa_fatal.
 */
void sa_block_find(const void *p, const char *what, struct sa_block *ret);

/* Looks up any pointer, without checks and without a message. The kind is NONE if p is no block,
 * and `exact` is 0. SAMPLED with class 0 is a block that another thread is freeing. */
void sa_block_try(const void *p, struct sa_block *ret);

/* The bytes that the program may use of a block in use. */
size_t sa_block_bytes(const struct sa_block *b);

/* The smallest class that serves a size, and whose size is a multiple of the alignment (0: none
 * requested). 0: there is none. */
unsigned sa_block_class(size_t size, size_t align);

#endif
