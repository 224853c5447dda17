/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Metrics of several processes as one text. Both formats want all samples of a metric together, its
 * family, so the pages of the processes are taken apart. Pages are those of stats/openmetrics.h; a
 * page of another kind may give other families, but no line without its process's labels.
 */
#ifndef SA_TOOL_SERVE_FAMILIES_H
#define SA_TOOL_SERVE_FAMILIES_H

#include "alloc/os/buffer.h"

#include <stdbool.h>

/* Text on the heap: a struct sa_buffer is a mapping of its own, and each process that is read takes
 * a fork, which copies mappings. */
struct sa_lines {
    char *data;
    size_t used, cap;
};

struct sa_families {
    struct sa_metric_family {
        char name[96];
        struct sa_lines head, samples; /* the lines that begin with #, and the others */
    } * of;
    size_t count, cap;
};

/* Adds the page of a process, with labels, as pid="1",name="x", in each sample. False: no memory,
 * or too many families. */
bool sa_families_add(struct sa_families *f, const char *page, size_t bytes, const char *labels);

/* Puts all of them. */
bool sa_families_put(const struct sa_families *f, struct sa_buffer *out);

void sa_families_free(struct sa_families *f);

#endif
