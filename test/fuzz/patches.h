/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inputs as changes to a good file: where most of a format must be right for a reader to get far.
 * Each change is a place, what happens there, and how much: bytes are set, flipped, moved, or cut.
 */
#ifndef SA_TEST_FUZZ_PATCHES_H
#define SA_TEST_FUZZ_PATCHES_H

#include "test/fuzz/fuzz.h"

/* Makes up to 16 changes to a file of *bytes bytes, of at least one, in memory of `cap`. */
static inline void fuzz_patch(struct fuzz_input *in, uint8_t *file, size_t *bytes, size_t cap)
{
    for (size_t changes = 1 + fuzz_below(in, 16); changes && fuzz_left(in); changes--) {
        uint8_t what = fuzz_byte(in);
        size_t at = fuzz_below(in, *bytes), n = 1 + what / 8 % 8, from;

        n = n < *bytes - at ? n : *bytes - at;
        switch (what % 8) {
        case 0 ... 2:
            for (size_t i = 0; i < n; i++)
                file[at + i] = fuzz_byte(in);
            break;
        case 3: /* small and large numbers */
            memset(file + at, what & 128 ? 0xff : 0, n);
            break;
        case 4:
            file[at] ^= (uint8_t)(1u << what / 8 % 8);
            break;
        case 5: /* a copy of another part over it */
            from = fuzz_below(in, *bytes);
            n = (size_t)1 + fuzz_byte(in);
            n = n < *bytes - at ? n : *bytes - at;
            n = n < *bytes - from ? n : *bytes - from;
            memmove(file + at, file + from, n);
            break;
        case 6: /* a part comes once more */
            n = (size_t)1 + fuzz_byte(in);
            n = n < *bytes - at ? n : *bytes - at;
            if (*bytes + n > cap)
                break;
            memmove(file + at + n, file + at, *bytes - at);
            *bytes += n;
            break;
        default:
            if (what > 127 && at)
                *bytes = at;
        }
    }
}

#endif
