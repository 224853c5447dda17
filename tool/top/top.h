/* SPDX-License-Identifier: Apache-2.0 */
/* `top`: what it reads, and the pages that it shows of that. */
#ifndef SA_TOOL_TOP_TOP_H
#define SA_TOOL_TOP_TOP_H

#include "tool/top/holders.h"

struct sa_top_options {
    double every;  /* seconds from one reading to the next */
    double within; /* seconds in which a holder grew */
    pid_t pid;     /* 0: all processes */
    enum sa_row_order order;
    unsigned by;    /* the tables of holders: bits as in struct sa_report_options */
    unsigned rows;  /* of a table */
    unsigned width; /* columns; 0: no limit */
};

struct sa_top {
    struct sa_top_options o;
    struct sa_rows rows;
    struct sa_holders holders;
};

/* Reads all processes, or the one. */
bool sa_top_read(struct sa_top *top, struct sa_error *e);

/* The page, to be freed; NULL: there is no memory. ret_first: the number of the line with the first
 * process, of the list. */
char *sa_top_page(struct sa_top *top, size_t *ret_first);

void sa_top_free(struct sa_top *top);

/* Shows pages on stdout, `count` of them, or without an end if that is 0. */
bool sa_top_batch(struct sa_top *top, unsigned count, struct sa_error *e);

/* Shows them on the terminal until the user quits. */
bool sa_top_screen(struct sa_top *top, struct sa_error *e);

#endif
