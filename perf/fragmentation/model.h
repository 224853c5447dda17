/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The model of salloc's memory: what its files share. One thread replays a trace, so nothing has a
 * lock. The layers, each of which calls those below it:
 *
 *   model.c          reads the trace, keeps the blocks of the program, prints
 *   model_caches.c   CPU caches and transfer caches
 *   model_central.c  the spans of size classes, and when classes take blocks from mixed spans
 *   model_mixed.c    mixed spans
 *   model_pages.c    pages in use, free and released
 *
 * An address of the model counts units of 16 bytes from 0.
 *
 * Invariants, which model.c checks at the end of each part of the trace:
 *   M1  the bytes of the program's blocks, of cached objects, of free objects, of tails of spans
 *       and of free runs are the bytes of all pages in use.
 *   M2  free_objects of a class is the sum over its spans; so is the use of mixed spans.
 *   M3  the counts of pages are those of the bitmaps.
 */
#ifndef PERF_FRAGMENTATION_MODEL_H
#define PERF_FRAGMENTATION_MODEL_H

#include "alloc/base/bits.h"
#include "alloc/base/page.h"
#include "alloc/base/size_class.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define UNIT       16u
#define PAGE_UNITS (SA_PAGE_BYTES / UNIT)
#define HUGE_BYTES (2ul << 20)
#define HUGE_PAGES (HUGE_BYTES / SA_PAGE_BYTES)
#define PAGES_MAX  (1u << 20)
#define NONE       UINT32_MAX

/* Ends the model if a condition does not hold. */
#define MODEL_CHECK(condition) ((condition) ? (void)0 : model_fail(#condition, __FILE__, __LINE__))
_Noreturn void model_fail(const char *condition, const char *file, int line);

/* What can be set on the command line; see the table in model.c. Bytes are whole numbers. */
struct params {
    double mixed;           /* 0: no mixed spans */
    double waste;           /* free bytes above this part of those given are much */
    double returns_waste;   /* the same while blocks go back at once */
    double floor_bytes;     /* ... and above this */
    double sparse;          /* a span becomes mixed if at most this part of its objects is in use */
    double align;           /* the most that blocks on mixed spans are aligned to */
    double convert;         /* spans that become mixed for one request */
    double cpu_cache;       /* bytes of each CPU's cache */
    double transfer;        /* capacity of transfer caches, as part of salloc's */
    double shake_bytes;     /* from mixed spans, until transfer caches pass on idle objects */
    double drain;           /* CPU caches are emptied after this many times their bytes; 0: never */
    double keep;            /* free pages that are kept, as part of those in use */
    double keep_lean;       /* the same while memory is wasted */
    double keep_bytes;      /* at least this much is kept */
    double keep_lean_bytes; /* the same while memory is wasted */
    double break_bytes; /* a hugepage that lost nothing yet, with fewer free bytes, keeps them */
    double break_lean_bytes; /* the same while memory is wasted */
    double borrow;           /* a class takes objects of classes up to this times its size */
    double returns;          /* longer blocks go back to mixed spans at once ... */
    double return_times;     /* ... as many times the bytes by which these grow */
    double join;             /* mixed spans are joined within so many bytes */
    double run;              /* 1: classes of many spans take several spans at a time */
};

extern struct params params;

/* What the program has been given, with CPU caches (sa_in_use); and the time in the trace. */
extern int64_t given_bytes;
extern uint64_t now_ms;

/* --- Pages --- */

struct pages_totals {
    size_t used, free; /* pages in use; free pages that are backed */
    size_t between;    /* of these, those in hugepages that are partly used */
    size_t large;      /* pages of blocks longer than a hugepage */
    size_t large_free; /* free pages of those that are backed */
    size_t releases;   /* of free pages of a hugepage: each is a system call */
};

extern struct pages_totals pages;

/* Takes n pages, at most HUGE_PAGES, at a multiple of `align` pages. dense: for a span of many
 * objects. Returns the number of the first one. */
uint32_t pages_take(size_t n, size_t align, bool dense);
void pages_put(uint32_t first, size_t n);
/* Pages of blocks longer than a hugepage. */
void pages_take_large(size_t n);
void pages_put_large(size_t n);
/* Notes that memory is wasted: few free pages are kept for a second. */
void pages_lean(void);
/* Releases free pages that were not needed, as maintenance does every 500 ms. */
void pages_tick(void);
void pages_check(void);

/* --- Mixed spans --- */

struct mixed_totals {
    size_t bytes, used; /* of mixed spans; of blocks on them */
    size_t taken, conversions, tables;
};

extern struct mixed_totals mixed;

/* Makes a mixed span. free_bits: bit n is set if object n is free. */
void mixed_begin(uint32_t page, size_t n_pages, unsigned cls, const uint64_t *free_bits);
/* Takes up to n blocks of a class from mixed spans; how many. */
size_t mixed_take(unsigned cls, uint32_t *units, size_t n);
/* Takes a block from new pages. */
uint32_t mixed_fresh(unsigned cls);
void mixed_put(unsigned cls, uint32_t unit);
bool mixed_owns(uint32_t unit);
/* Whether a block of so many bytes, which is freed now, goes back at once; then it counts. */
bool mixed_returns(size_t size);
bool mixed_is_returning(void);
void mixed_check(void);

/* --- Classes --- */

/* Takes up to n objects; at least one. */
size_t central_take(unsigned cls, uint32_t *units, size_t n);
void central_put(unsigned cls, const uint32_t *units, size_t n);
bool central_has(unsigned cls);
/* Takes an object of a longer class that has free ones (params.borrow), if memory is wasted and the
 * class has none. Returns the class; 0: there is none. */
unsigned central_borrow(unsigned cls, uint32_t *ret_unit);
/* Gives new spans back that no object was taken from since the last call. */
void central_plunder(void);
/* Whether so much came from mixed spans that caches pass on what they have. */
bool central_shake_is_due(void);
bool central_drain_is_due(size_t cache_bytes);
/* Bytes of free objects, and of tails of spans; highest number of spans at a time. */
size_t central_free_bytes(void);
size_t central_tail_bytes(void);
size_t central_spans_max(void);
void central_check(void);

/* --- Caches --- */

uint32_t cache_alloc(unsigned cpu, unsigned cls);
/* If no cache has an object of the class, takes one of a longer class as central_borrow does. */
unsigned cache_borrow(unsigned cpu, unsigned cls, uint32_t *ret_unit);
void cache_free(unsigned cpu, unsigned cls, uint32_t unit);
/* Passes on objects that were not used lately, as maintenance does every 500 ms. */
void cache_tick(void);
/* Bytes in CPU caches and in transfer caches. */
size_t cache_cpu_bytes(void);
size_t cache_transfer_bytes(void);

#endif
