/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the entries of .eh_frame (unwind_entry.h). */
#include "sampling/stack/unwind_entry.h"

#include "alloc/base/fatal.h"
#include "sampling/stack/unwind.h"
#include "sampling/stack/unwind_pages.h"

#ifdef SA_UNWIND_FAST

#include <string.h>

/* --- reading --- */

bool sa_cfi_has(struct sa_cfi_reader *r, uint64_t n)
{
    if (n > (uint64_t)(r->end - r->at))
        r->failed = true;
    return !r->failed;
}

uint64_t sa_cfi_bytes(struct sa_cfi_reader *r, unsigned n)
{
    uint64_t v = 0;

    SA_DCHECK(n <= sizeof(v));
    if (!sa_cfi_has(r, n))
        return 0;
    memcpy(&v, r->at, n);
    r->at += n;
    return v;
}

uint64_t sa_cfi_leb(struct sa_cfi_reader *r, bool is_signed)
{
    uint64_t v = 0;
    unsigned shift = 0;
    uint8_t byte;

    do {
        byte = (uint8_t)sa_cfi_bytes(r, 1);
        if (shift < 64)
            v |= (uint64_t)(byte & 0x7f) << shift;
        shift += 7;
    } while (byte & 0x80);
    if (is_signed && byte & 0x40 && shift < 64)
        v |= ~(uint64_t)0 << shift;
    return v;
}

uintptr_t sa_cfi_pointer(struct sa_cfi_reader *r, uint8_t encoding)
{
    uintptr_t base = 0, v;

    switch (encoding & 0x70) {
    case 0x00: /* DW_EH_PE_absptr */
        break;
    case 0x10: /* DW_EH_PE_pcrel */
        base = (uintptr_t)r->at;
        break;
    case 0x30: /* DW_EH_PE_datarel */
        base = r->data_base;
        break;
    default:
        r->failed = true;
    }
    switch (encoding & 0x0f) {
    case 0x00: /* absptr, udata8, sdata8 */
    case 0x04:
    case 0x0c:
        v = sa_cfi_bytes(r, 8);
        break;
    case 0x01: /* uleb128 */
        v = sa_cfi_leb(r, false);
        break;
    case 0x09: /* sleb128 */
        v = sa_cfi_leb(r, true);
        break;
    case 0x02: /* udata2 */
        v = sa_cfi_bytes(r, 2);
        break;
    case 0x03: /* udata4 */
        v = sa_cfi_bytes(r, 4);
        break;
    case 0x0a: /* sdata2 */
        v = (uintptr_t)(int16_t)sa_cfi_bytes(r, 2);
        break;
    case 0x0b: /* sdata4 */
        v = (uintptr_t)(int32_t)sa_cfi_bytes(r, 4);
        break;
    default:
        v = 0;
        r->failed = true;
    }
    if (encoding & 0x80) /* DW_EH_PE_indirect: compilers use it for personalities only */
        r->failed = true;
    return v ? base + v : 0;
}

/* --- entries --- */

#define ENTRY_USUAL                                                                                \
    1024 /* bytes. Of a longer entry, which may be damaged, only the start is touched */

/* Returns a reader of an entry's contents behind the length. It has failed if the entry is the
 * terminator, or has the 64-bit format, which compilers do not write. */
static struct sa_cfi_reader open_entry(const uint8_t *entry)
{
    struct sa_cfi_reader r = {entry, entry + 4, 0, false};
    uint32_t length;

    sa_unwind_touch(entry);
    length = (uint32_t)sa_cfi_bytes(&r, 4);
    r.failed = length == UINT32_MAX || length == 0;
    r.end = r.at + (r.failed ? 0 : length);
    if (length <= ENTRY_USUAL)
        sa_unwind_touch(r.end - 1);
    return r;
}

/* Reads the augmentation data of a CIE. Each letter behind the 'z' says what comes next. */
static void read_augmentation(struct sa_cfi_reader *r, const char *letter, struct sa_cfi_cie *ret)
{
    uint64_t bytes = sa_cfi_leb(r, false);
    const uint8_t *start = r->at;

    if (!sa_cfi_has(r, bytes))
        return;
    for (; *letter && !r->failed; letter++) {
        uint8_t encoding;

        switch (*letter) {
        case 'R': /* encoding of the addresses in FDEs */
            ret->pointer_encoding = (uint8_t)sa_cfi_bytes(r, 1);
            break;
        case 'P': /* personality */
            encoding = (uint8_t)sa_cfi_bytes(r, 1);
            sa_cfi_pointer(r, encoding & 0x7f);
            break;
        case 'L': /* encoding of the exception table's address */
            sa_cfi_bytes(r, 1);
            break;
        case 'S': /* a frame that returns from a signal handler */
            ret->signal = true;
            break;
        default:
            r->failed = true;
        }
    }
    r->at = start + bytes;
}

static bool read_cie(const uint8_t *at, struct sa_cfi_cie *ret)
{
    struct sa_cfi_reader r = open_entry(at);
    uint64_t id = sa_cfi_bytes(&r, 4), version = sa_cfi_bytes(&r, 1);
    const char *letters = (const char *)r.at;

    memset(ret, 0, sizeof(*ret));
    if (r.failed || id != 0 || (version != 1 && version != 3) ||
        !memchr(letters, 0, (size_t)(r.end - r.at)))
        return false;
    r.at += strlen(letters) + 1;
    ret->code_align = sa_cfi_leb(&r, false);
    ret->data_align = (int64_t)sa_cfi_leb(&r, true);
    ret->ra_register = version == 1 ? sa_cfi_bytes(&r, 1) : sa_cfi_leb(&r, false);
    ret->augmented = *letters == 'z';
    if (ret->augmented)
        read_augmentation(&r, letters + 1, ret);
    else if (*letters)
        r.failed = true;
    ret->program = r;
    return !r.failed && ret->ra_register == SA_CFI_RA;
}

bool sa_cfi_fde(const uint8_t *fde, struct sa_cfi_cie *ret_cie, uintptr_t *ret_start,
                uintptr_t *ret_end, struct sa_cfi_reader *ret_program)
{
    struct sa_cfi_reader r = open_entry(fde);
    const uint8_t *field = r.at;
    uint32_t back = (uint32_t)sa_cfi_bytes(&r, 4);

    if (r.failed || back == 0 || !read_cie(field - (int32_t)back, ret_cie))
        return false;
    *ret_start = sa_cfi_pointer(&r, ret_cie->pointer_encoding);
    *ret_end = *ret_start + sa_cfi_pointer(&r, ret_cie->pointer_encoding & 0x0f);
    *ret_program = r;
    return !r.failed;
}

#endif
