/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fast paths of malloc, calloc, free and the C++ operators. They are straight-line code: each
 * rare condition shares a test that the common case needs anyway, and leaves for the slow path by a
 * tail call.
 *
 * malloc: the test of the size limit also detects that the library is not initialised, because the
 * limit is 0 then. The test of the packed header also detects an empty cache, the end of the
 * sampling countdown, a CPU that was never used, a stopped cache, and missing rseq. A sequence that
 * the kernel restarts leaves as well; the slow path begins it again.
 *
 * free: the test of the home window also detects NULL, foreign pointers, sampled blocks and blocks
 * outside the window. Class 0, whose cache is always empty and full, stands for classes with longer
 * spans, large blocks, foreign pointers, and a library that is not initialised. The start check
 * detects pointers into the middle of a block.
 *
 * The fast paths read sa_hot (alloc/hot/hot.h says who writes it) and write the slab of the current
 * CPU, which restartable sequences guard. They take no lock and are not inside the fork gate.
 */
#ifndef SA_FRONT_FAST_PATH_H
#define SA_FRONT_FAST_PATH_H

#include "alloc/base/atomic.h"
#include "alloc/base/bits.h"
#include "alloc/base/clear.h"
#include "alloc/base/fatal.h"
#include "alloc/base/size_class.h"
#include "alloc/hot/hot.h"

#include <string.h>

/*
 * Attributes of functions that inline a fast path: exported, and aligned to a cache line. Without
 * the alignment, a pair of malloc and free took 20 % longer on one processor, depending on where
 * the linker put the functions.
 */
#define SA_FAST_ENTRY SA_EXPORT __attribute__((aligned(SA_CACHELINE)))

/* Up to this many bytes, a loop clears or copies faster than a call. */
#define SA_CLEAR_INLINE 128

/* The slow paths. Each function below takes its slow path as a constant and is always inlined, so
 * that the compiler leaves for the slow path with a jump. */
typedef void *sa_alloc_slow(size_t size);
typedef void sa_free_slow(void *p);
typedef void sa_free_sized_slow(void *p, size_t size);

/* The caller of a fast path, a constant as well. The C++ operators have limits of their own, which
 * are 0 as long as the operators must ask first (alloc/api/replaced.h). */
enum sa_fast_for { SA_FOR_C, SA_FOR_CXX };

/* The bytes of an object of a class that is given as a header offset. */
SA_INLINE size_t sa_fast_class_bytes(size_t cls)
{
    return sa_size_classes.of[cls / sizeof(struct sa_header)].size;
}

/* The class, as a header offset, of a size below mid_limit. */
SA_INLINE size_t sa_fast_size_class(const struct sa_hot *hot, size_t size)
{
    return size <= SA_SMALL_MAX ? hot->small_class[size] : hot->mid_class[sa_hot_mid_index(size)];
}

/* Clears an object for `size` bytes to its end: a program may use all that malloc_usable_size says.
 * Up to SA_CLEAR_INLINE there is a class for each unit of 16 bytes. Returns p. */
SA_INLINE void *sa_fast_clear(const struct sa_hot *hot, void *p, size_t size)
{
    typedef uint64_t unit __attribute__((vector_size(16)));
    unit *at = p;

    SA_DCHECK(size > SA_CLEAR_INLINE || sa_fast_class_bytes(sa_fast_size_class(hot, size)) ==
                                            sa_align_up(sa_max(size, 1), sizeof(unit)));
    if (size > SA_CLEAR_INLINE)
        return sa_clear_warm(p, sa_fast_class_bytes(sa_fast_size_class(hot, size)));
    do {
        *at++ = (unit){0, 0};
        SA_OPAQUE(at); /* keeps the compiler from making the loop a call of memset */
    } while ((char *)at < (char *)p + size);
    return p;
}

/* Allocates an object for `size` bytes, cleared if `zero`. */
SA_INLINE void *sa_fast_alloc(enum sa_fast_for who, size_t size, bool zero, sa_alloc_slow *slow)
{
    struct sa_hot *hot = &sa_hot;
    size_t cls;
    void *p;

    SA_OPAQUE(hot);
    if (SA_LIKELY(size < (who == SA_FOR_CXX ? hot->cxx_small_limit : hot->small_limit)))
        cls = hot->small_class[size];
    else if (size < (who == SA_FOR_CXX ? hot->cxx_mid_limit : hot->mid_limit))
        cls = hot->mid_class[sa_hot_mid_index(size)];
    else
        goto leave;
    SA_PERCPU_POP(hot, cls, p, leave, restart);
    return zero ? sa_fast_clear(hot, p, size) : p;
restart:
leave:
    SA_PERCPU_LABEL;
    return slow(size);
}

/*
 * The start check: an object starts at an offset into its span exactly if offset * m modulo 2^64 is
 * below 2^SA_START_SHIFT. m = (2^64 + e) / size, for an e that depends on the class.
 *
 * Let offset = quotient * size + rest. Then offset * m = quotient * e + rest * m, modulo 2^64. For
 * rest = 0 that is quotient * e. For rest > 0 it is at least m, as long as quotient * e + (size -
 * 1) * m stays below 2^64. front_start_check in fast_path_open.c chooses m so that quotient * e is
 * below 2^47 for the last object of a span, and at least 2^47 for the offset behind the last
 * object. Sizes are below 2^16 here, because larger ones are whole pages. So m is above 2^48.
 * quotient * e adds less than 2^48 to (size - 1) / size * 2^64, so that the sum stays below 2^64.
 */
#define SA_START_SHIFT 47

/* The entry of a class that is given as a header offset. */
SA_INLINE const struct sa_hot_class *sa_fast_of_class(const struct sa_hot *hot, size_t cls)
{
    return (const struct sa_hot_class *)((const char *)hot->of_class + cls);
}

/* Frees an object on a span of one page. */
SA_INLINE void sa_fast_free(enum sa_fast_for who, void *p, sa_free_slow *slow)
{
    struct sa_hot *hot = &sa_hot;
    uint64_t page, cls;

    SA_OPAQUE(hot);
    page = ((uintptr_t)p >> SA_PAGE_SHIFT) - SA_HOME_PAGE;
    SA_OPAQUE(page); /* keeps the compiler from computing it twice to save the table an offset */
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

/* The class, as a header offset, of the object that begins at p. 0: the slow path decides. */
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

/* Frees an object of any class, including those with spans of several pages, which sa_fast_free
 * does not serve. The slow path begins with this function. False: the block was not freed. */
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

/*
 * Frees a block whose size the caller names. The size finds the class without waiting for the page
 * map. The page map must name the same class, and the start check is that of sa_fast_free: so a
 * wrong size, and a pointer that is no block, leave for the slow path.
 */
SA_INLINE void sa_fast_free_sized(enum sa_fast_for who, void *p, size_t size,
                                  sa_free_sized_slow *slow)
{
    struct sa_hot *hot = &sa_hot;
    uint64_t page;
    size_t cls;

    SA_OPAQUE(hot);
    page = ((uintptr_t)p >> SA_PAGE_SHIFT) - SA_HOME_PAGE;
    SA_OPAQUE(page);
    if (SA_UNLIKELY(page >= SA_HOME_PAGES))
        goto leave;
    if (SA_LIKELY(size < (who == SA_FOR_CXX ? hot->cxx_small_limit : hot->small_limit)))
        cls = hot->small_class[size];
    else if (size < (who == SA_FOR_CXX ? hot->cxx_mid_limit : hot->mid_limit))
        cls = hot->mid_class[sa_hot_mid_index(size)];
    else
        goto leave;
    if (SA_UNLIKELY(SA_CLASS_OFFSET((size_t)hot->home_any_class[page]) != cls))
        goto leave;
    if (SA_UNLIKELY(((uintptr_t)p & sa_fast_of_class(hot, cls)->start_mask) *
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
    slow(p, size);
}

/* True if a block can stay in place with a new size, because both sizes have the same class. */
SA_INLINE bool sa_fast_realloc_stays(const void *p, size_t size)
{
    const struct sa_hot *hot = &sa_hot;
    size_t cls = sa_fast_class_of(hot, p);

    return cls && size - 1 < hot->mid_limit - 1 && cls == sa_fast_size_class(hot, size);
}

/* Copies the first `bytes` bytes of an object to another one, where `bytes` is the smaller of their
 * sizes, a multiple of 16. */
SA_INLINE void sa_fast_copy(void *to, const void *from, size_t bytes)
{
    typedef uint64_t unit __attribute__((vector_size(16)));

    if (bytes > SA_CLEAR_INLINE) {
        memcpy(to, from, bytes);
        return;
    }
    for (size_t i = 0; i < bytes / sizeof(unit); i++) {
        ((unit *)to)[i] = ((const unit *)from)[i];
        SA_OPAQUE(i); /* keeps the compiler from making the loop a call of memcpy */
    }
}

#endif
