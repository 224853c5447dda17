/* SPDX-License-Identifier: Apache-2.0 */
/* JSON that is part of a page of HTML. */
#ifndef SA_TOOL_BASE_JSON_H
#define SA_TOOL_BASE_JSON_H

#include "alloc/os/buffer.h"

#include <stdbool.h>
#include <stddef.h>

/* Puts a text of at most `cap` bytes, the rest of which is left out, as a string of JSON. Whatever
 * the text is, the string has no '<', '>', '&' and no line end, so it cannot end the element that
 * it lies in. Bytes that are not UTF-8 become '?'. False: there is no memory. */
bool sa_json_put_string(struct sa_buffer *out, const char *text, size_t cap);

#endif
