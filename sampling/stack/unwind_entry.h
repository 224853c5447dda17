/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The entries of .eh_frame: common information (CIE), and descriptions of functions (FDE) that
 * refer to one. Pure: reads constant data of an object, never past the end of an entry.
 */
#ifndef SA_SAMPLING_STACK_UNWIND_ENTRY_H
#define SA_SAMPLING_STACK_UNWIND_ENTRY_H

#include <stdbool.h>
#include <stdint.h>

#define SA_CFI_RA 16 /* the return address, as DWARF numbers registers of x86-64 */

struct sa_cfi_reader {
    const uint8_t *at, *end;
    uintptr_t data_base;
    bool failed; /* read past the end, or something unknown; then all values are 0 */
};

struct sa_cfi_cie {
    uint64_t code_align;
    int64_t data_align;
    uint64_t ra_register;
    uint8_t pointer_encoding;
    bool augmented, signal;       /* signal: a frame that returns from a signal handler */
    struct sa_cfi_reader program; /* instructions that come before those of any function */
};

/* Whether so many bytes are left; else the reader has failed. */
bool sa_cfi_has(struct sa_cfi_reader *r, uint64_t bytes);
uint64_t sa_cfi_bytes(struct sa_cfi_reader *r, unsigned n); /* n <= 8 */
uint64_t sa_cfi_leb(struct sa_cfi_reader *r, bool is_signed);
uintptr_t sa_cfi_pointer(struct sa_cfi_reader *r, uint8_t encoding); /* DW_EH_PE_... */

/* An FDE: its CIE, the addresses that it is about, its instructions. False: cannot be read by this
 * code. */
bool sa_cfi_fde(const uint8_t *fde, struct sa_cfi_cie *ret_cie, uintptr_t *ret_start,
                uintptr_t *ret_end, struct sa_cfi_reader *ret_program);

#endif
