/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The format of allocation traces: record_trace.c writes it, trace_reader.c reads it.
 *
 * A file begins with TRACE_MAGIC. Records follow: one byte with the operation, then its numbers.
 * Numbers are varints (7 bits a byte, the least first; bit 7 is set if more follow). An address is
 * the difference to the address that was written last, in units of 16 bytes, zigzag-encoded. A
 * program that was killed may have left part of a record at the end.
 */
#ifndef PERF_FRAGMENTATION_TRACE_FORMAT_H
#define PERF_FRAGMENTATION_TRACE_FORMAT_H

#define TRACE_MAGIC       "salloc-trace-1\n"
#define TRACE_MAGIC_BYTES 15
#define TRACE_UNIT        16u

/* The longest record in bytes: an operation and four varints of 64 bits. */
#define TRACE_RECORD_MAX 41

enum trace_op {
    TRACE_ALLOC = 1, /* size, address */
    TRACE_ALIGNED,   /* log2 of the alignment, size, address */
    TRACE_FREE,      /* address */
    TRACE_REALLOC,   /* address before, size, address */
    TRACE_CPU,       /* number of the CPU that the next operations run on */
    TRACE_TIME,      /* milliseconds since the last such record */
};

#endif
