/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fast paths of malloc, calloc, free and the C++ operators. They are straight-line code: each
 * rare condition shares a test that the common case needs anyway, and leaves for the slow path in
 * tail position.
 *
 * malloc: the test of the size limit also detects that the library is not initialised (the limit is
 *         0 then). The test of the packed header also detects an empty cache, the end of the
 *         sampling countdown, a CPU that was never used, a stopped cache, and missing rseq. A
 *         sequence that the kernel restarts leaves as well; the slow path begins it again.
 * free:   the test of the home window also detects NULL, foreign pointers, sampled blocks and
 *         blocks outside the window. Class 0, whose cache is always empty and full, stands for
 *         classes with longer spans, large blocks, foreign pointers, and a library that is not
 *         initialised. The start check detects pointers into the middle of a block.
 */
#ifndef SA_FRONT_FAST_PATH_H
#define SA_FRONT_FAST_PATH_H

#include "alloc/base/bits.h"
#include "alloc/base/clear.h"
#include "alloc/base/size_class.h"
#include "alloc/hot/hot.h"

#include <string.h>

/*
 * Attributes of functions that inline a fast path: they begin on a cache line. Without the
 * alignment, a pair of malloc and free took 20 % longer on one processor, depending on where the
 * linker put them.
 */
#define SA_FAST_ENTRY SA_EXPORT __attribute__((aligned(SA_CACHELINE)))

/* Up to this many bytes, a loop clears or copies faster than a call. */
#define SA_CLEAR_INLINE 128

/*
 * The slow paths. Each function below takes its slow path as a constant and is always inlined, so
 * that the compiler leaves for it with a jump.
 */
typedef void *sa_alloc_slow(size_t size);
typedef void sa_free_slow(void *p);
typedef void sa_free_sized_slow(void *p, size_t size);

/* The caller of a fast path, a constant as well. The C++ operators have limits of their own, which
 * are 0 as long as the operators must ask first (alloc/api/replaced.h). */
enum sa_fast_for { SA_FOR_C, SA_FOR_CXX };

/* Clears an object: whole 16-byte units, of which every object consists. */
SA_INLINE void *sa_fast_clear(void *p, size_t size)
{
    typedef uint64_t unit __attribute__((vector_size(16)));
    unit *at = p;

    if (size > SA_CLEAR_INLINE)
        return sa_clear_warm(p, size);
    do {
        *at++ = (unit){0, 0};
        SA_OPAQUE(at); /* or the compiler would make it a call of memset again */
    } while ((char *)at < (char *)p + size);
    return p;
}

SA_INLINE void *sa_fast_alloc(enum sa_fast_for who, size_t size, bool zero, sa_alloc_slow *slow)
{
    struct sa_hot *hot = &sa_hot;
    size_t cls;
    void *p;

    SA_OPAQUE(hot);
    if (SA_LIKELY(size < (who == SA_FOR_CXX ? hot->cxx_small_limit : hot->small_limit)))
        cls = hot->small_class[size];
    else if (size < (who == SA_FOR_CXX ? hot->cxx_mid_limit : hot->mid_limit))
        cls = hot->mid_class[(size + 127) / 128];
    else
        goto leave;
    SA_PERCPU_POP(hot, cls, p, leave, restart);
    return zero ? sa_fast_clear(p, size) : p;
restart:
leave:
    SA_PERCPU_LABEL;
    return slow(size);
}

/*
 * Whether an object starts at an offset into its span. With m = (2^64 + e) / size for some e,
 * offset * m modulo 2^64 is quotient * e for a multiple of size, and at least m otherwise, as long
 * as quotient * e + (size - 1) * m stays below 2^64. m is chosen (slow_path.c) so that quotient * e
 * is below 2^47 for the last object of a span, and not below for what is behind it: so it is at any
 * quotient up to there. Sizes are below 2^16 here (larger ones are whole pages): m is above 2^48,
 * and e, which is at most 2^47 + size, adds less than 2^48 to (size - 1) / size * 2^64.
 */
#define SA_START_SHIFT 47

SA_INLINE const struct sa_hot_class *sa_fast_of_class(const struct sa_hot *hot, size_t cls)
{
    return (const struct sa_hot_class *)((const char *)hot->of_class + cls);
}

SA_INLINE void sa_fast_free(enum sa_fast_for who, void *p, sa_free_slow *slow)
{
    struct sa_hot *hot = &sa_hot;
    uint64_t page, cls;

    SA_OPAQUE(hot);
    page = ((uintptr_t)p >> SA_PAGE_SHIFT) - SA_HOME_PAGE;
    SA_OPAQUE(page); /* or it would be worked out twice, to save the table an offset */
    if (SA_UNLIKELY(page >= (who == SA_FOR_CXX ? hot->cxx_home_pages : SA_HOME_PAGES)))
        goto leave;
    cls = hot->home_class[page];
    if (SA_UNLIKELY(((uintptr_t)p & (SA_PAGE_BYTES - 1)) *
                        sa_fast_of_class(hot, cls)->start_check >>
                    SA_START_SHIFT))
        goto leave;
    SA_PERCPU_PUSH(hot, cls, p, full, twice, restart);
    return;
full:
twice:
restart:
leave:
    SA_PERCPU_LABEL;
    slow(p);
}

/* The class of the object that begins at p, as a header offset; 0: the slow path decides. */
SA_INLINE size_t sa_fast_class_of(const struct sa_hot *hot, const void *p)
{
    uint64_t page = ((uintptr_t)p >> SA_PAGE_SHIFT) - SA_HOME_PAGE;
    const struct sa_hot_class *of;
    size_t cls;

    if (SA_UNLIKELY(page >= SA_HOME_PAGES))
        return 0;
    cls = SA_CLASS_OFFSET((size_t)hot->home_any_class[page]);
    of = sa_fast_of_class(hot, cls);
    return ((uintptr_t)p & of->start_mask) * of->start_check >> SA_START_SHIFT ? 0 : cls;
}

/* Frees an object of any class, including those with spans of several pages, which the fast path
 * does not serve. The slow path begins with it. False: the block was not freed. */
SA_INLINE bool sa_fast_free_other(void *p)
{
    struct sa_hot *hot = &sa_hot;
    uint64_t cls;

    SA_OPAQUE(hot);
    cls = sa_fast_class_of(hot, p);
    if (SA_UNLIKELY(!cls))
        return false;
    SA_PERCPU_PUSH(hot, cls, p, full, twice, restart);
    return true;
full:
twice:
restart:
    SA_PERCPU_LABEL;
    return false;
}

/* Frees a block whose size the caller knows, without a look at the page map. */
SA_INLINE void sa_fast_free_sized(enum sa_fast_for who, void *p, size_t size,
                                  sa_free_sized_slow *slow)
{
    struct sa_hot *hot = &sa_hot;
    size_t cls;

    SA_OPAQUE(hot);
    if (SA_UNLIKELY(((uintptr_t)p >> SA_PAGE_SHIFT) - SA_HOME_PAGE >= SA_HOME_PAGES))
        goto leave;
    if (SA_LIKELY(size < (who == SA_FOR_CXX ? hot->cxx_small_limit : hot->small_limit)))
        cls = hot->small_class[size];
    else if (size < (who == SA_FOR_CXX ? hot->cxx_mid_limit : hot->mid_limit))
        cls = hot->mid_class[(size + 127) / 128];
    else
        goto leave;
    SA_PERCPU_PUSH(hot, cls, p, full, twice, restart);
    return;
full:
twice:
restart:
leave:
    SA_PERCPU_LABEL;
    slow(p, size);
}

/* Bytes of an object of a class that is given as a header offset. */
SA_INLINE size_t sa_fast_class_bytes(size_t cls)
{
    return sa_size_classes.of[cls / sizeof(struct sa_header)].size;
}

/* The class, as a header offset, of a size below mid_limit. */
SA_INLINE size_t sa_fast_size_class(const struct sa_hot *hot, size_t size)
{
    return size <= SA_SMALL_MAX ? hot->small_class[size] : hot->mid_class[(size + 127) / 128];
}

/* Whether a block can stay where it is with a new size: both have the same class. */
SA_INLINE bool sa_fast_realloc_stays(const void *p, size_t size)
{
    const struct sa_hot *hot = &sa_hot;
    size_t cls = sa_fast_class_of(hot, p);

    return cls && size - 1 < hot->mid_limit - 1 && cls == sa_fast_size_class(hot, size);
}

/* Copies what two objects both have room for, given the smaller size: whole 16-byte units. */
SA_INLINE void sa_fast_copy(void *to, const void *from, size_t bytes)
{
    typedef uint64_t unit __attribute__((vector_size(16)));

    if (bytes > SA_CLEAR_INLINE) {
        memcpy(to, from, bytes);
        return;
    }
    for (size_t i = 0; i < bytes / sizeof(unit); i++) {
        ((unit *)to)[i] = ((const unit *)from)[i];
        SA_OPAQUE(i); /* or the compiler would make it a call of memcpy again */
    }
}

#endif
