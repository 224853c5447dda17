/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The format of traces of spans: record_spans.c and traces.py write it, replay.c reads it.
 *
 * A file begins with SPANS_MAGIC. Records follow: one byte with the operation, then its numbers, as
 * varints (7 bits a byte, the least first; bit 7 is set if more follow). A place is the number of
 * the span's first page less the number of the page after the place that was written last,
 * zigzag-encoded. A program that was killed may have left part of a record at the end.
 */
#ifndef PERF_RETENTION_SPANS_FORMAT_H
#define PERF_RETENTION_SPANS_FORMAT_H

#define SPANS_MAGIC       "salloc-spans-1\n"
#define SPANS_MAGIC_BYTES 15

/* The longest record in bytes: an operation and four varints of 64 bits. */
#define SPANS_RECORD_MAX 41

enum spans_op {
    SPANS_TAKE = 1,  /* place, pages */
    SPANS_DENSE,     /* the same, for many objects */
    SPANS_ALIGNED,   /* place, pages, log2 of the alignment in pages */
    SPANS_GIVE,      /* place */
    SPANS_GIVE_ZERO, /* the same, of a span without memory */
    SPANS_RESIZE,    /* place, pages: the span has grown or shrunk in place */
    SPANS_SPLIT,     /* place, pages: the rest of the span is a span of its own */
    SPANS_JOIN,      /* place, place of the next span, which is now part of the first */
    SPANS_TICK,      /* flags below: the library ran maintenance */
    SPANS_TIME,      /* milliseconds since the last such record */
    SPANS_CPU,       /* milliseconds of CPU time of the process since the last such record */
};

enum { SPANS_THREADS = 1, SPANS_WASTEFUL = 2 };

#endif
