/* SPDX-License-Identifier: Apache-2.0 */
/* Puts the parts of JSON into a page. After the first time that there is no memory, nothing is put.
 */
#ifndef SA_TOOL_PAGE_PAGE_WRITER_H
#define SA_TOOL_PAGE_PAGE_WRITER_H

#include "alloc/os/buffer.h"

#include <stdbool.h>
#include <stddef.h>

#define SA_PAGE_NAME_MAX 4096 /* bytes of a function's name; the rest is cut */
#define SA_PAGE_TEXT_MAX 1024 /* of any other string */

struct sa_page_writer {
    struct sa_buffer *out;
    bool fine; /* there was always memory */
};

void sa_page_put(struct sa_page_writer *w, const char *text);
void sa_page_put_number(struct sa_page_writer *w, long long number);

/* JSON has no infinity, so that is null. */
void sa_page_put_double(struct sa_page_writer *w, double number);

/* A string of at most so many bytes; whatever it has, it does not end the script around it. */
void sa_page_put_string(struct sa_page_writer *w, const char *text, size_t cap);

/* A comma, a key and a colon. */
void sa_page_put_key(struct sa_page_writer *w, const char *key);

/* A comma between the elements of a list. */
void sa_page_next(struct sa_page_writer *w, size_t i);

#endif
