/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the allocation traces that record_trace.c writes. */
#ifndef PERF_FRAGMENTATION_TRACE_READER_H
#define PERF_FRAGMENTATION_TRACE_READER_H

#include "perf/fragmentation/trace_format.h"

#include <stdbool.h>
#include <stdint.h>

struct trace {
    const uint8_t *begin, *at, *end;
    uint64_t address; /* that was read last */
};

/* A record. Addresses count units of TRACE_UNIT bytes. */
struct trace_record {
    enum trace_op op;
    unsigned log_align;
    uint64_t size, address;
    uint64_t before; /* of TRACE_REALLOC: the address until then */
    uint64_t number; /* of TRACE_CPU and TRACE_TIME */
};

/* Opens a trace. Ends the program if it is none. */
void trace_open(struct trace *t, const char *path);
/* Reads the next record. False: there is none, or only a part of one. */
bool trace_next(struct trace *t, struct trace_record *r);
/* Goes back to the first record. */
void trace_rewind(struct trace *t);

#endif
