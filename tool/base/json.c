/* SPDX-License-Identifier: Apache-2.0 */
/* Strings of JSON within HTML; see json.h. No state. */
#include "tool/base/json.h"

#include "alloc/base/utf8.h"
#include "tool/base/text.h"

#include <string.h>

/* Whether the character at s, of that many bytes, ends a line for some readers: U+2028, U+2029. */
static bool ends_line(const char *s, size_t length)
{
    return length == 3 && memcmp(s, "\xe2\x80", 2) == 0 && (s[2] == '\xa8' || s[2] == '\xa9');
}

bool sa_json_put_string(struct sa_buffer *out, const char *text, size_t cap)
{
    size_t bytes = strnlen(text, cap + 1), length;
    bool fine = sa_text_add(out, "\""), cut = bytes > cap;

    for (size_t i = 0; fine && i < bytes; i += length) {
        const char *s = text + i;
        unsigned char c = (unsigned char)*s;

        length = sa_utf8_length(s, bytes - i);
        if (i + length > cap)
            break;
        if (!length) {
            length = 1;
            fine = sa_text_put(out, "?", 1);
        } else if (ends_line(s, length)) {
            fine = sa_text_add(out, "\\u202%c", s[2] == '\xa8' ? '8' : '9');
        } else if (c < ' ' || c == 0x7f || (length == 1 && strchr("\"\\<>&", c))) {
            fine = sa_text_add(out, "\\u%04x", c);
        } else {
            fine = sa_text_put(out, s, length);
        }
    }
    return fine && sa_text_add(out, cut ? "\xe2\x80\xa6\"" : "\"");
}
