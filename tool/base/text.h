/* SPDX-License-Identifier: Apache-2.0 */
/* Text that grows in a buffer. */
#ifndef SA_TOOL_BASE_TEXT_H
#define SA_TOOL_BASE_TEXT_H

#include "alloc/os/buffer.h"

#include <stdbool.h>

/* Add bytes, and formatted text of any length, without a zero byte at the end. False: there is no
 * memory. */
bool sa_text_put(struct sa_buffer *text, const char *bytes, size_t count);
__attribute__((format(printf, 2, 3))) bool sa_text_add(struct sa_buffer *text, const char *format,
                                                       ...);

#endif
