/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the entries of .eh_frame: frame description entries (FDE), each for one function, and the
 * common information entries (CIE) that they refer to (DWARF 5, section 6.4, and the Linux Standard
 * Base). The functions are pure. They read constant data of a loaded object, and never past the end
 * of an entry.
 */
#ifndef SA_SAMPLING_STACK_UNWIND_ENTRY_H
#define SA_SAMPLING_STACK_UNWIND_ENTRY_H

#include <stdbool.h>
#include <stdint.h>

#define SA_CFI_RA 16 /* DWARF's register number of the return address on x86-64 */

/* A position in an entry. Each function below moves it. */
struct sa_cfi_reader {
    const uint8_t *at, *end; /* the bytes not yet read */
    uintptr_t data_base;     /* base of pointers with DW_EH_PE_datarel */
    bool failed; /* a read went past the end, or met an unknown value: read values are 0 */
};

struct sa_cfi_cie {
    uint64_t code_align; /* factor of advances */
    int64_t data_align;  /* factor of offsets */
    uint64_t ra_register;
    uint8_t pointer_encoding;     /* DW_EH_PE_..., of the addresses in its FDEs */
    bool augmented;               /* its FDEs have augmentation data */
    bool signal;                  /* its FDEs describe frames that return from a signal handler */
    struct sa_cfi_reader program; /* instructions that come before those of each FDE */
};

/* Returns whether this many bytes are left. If not, the reader fails. */
bool sa_cfi_has(struct sa_cfi_reader *r, uint64_t bytes);

/* Reads a little-endian number of n bytes. Requires n <= 8. */
uint64_t sa_cfi_bytes(struct sa_cfi_reader *r, unsigned n);

/* Reads a number in LEB128. Its bits beyond 64 are lost. */
uint64_t sa_cfi_leb(struct sa_cfi_reader *r, bool is_signed);

/* Reads an address. encoding: DW_EH_PE_..., of which DW_EH_PE_indirect makes the reader fail. */
uintptr_t sa_cfi_pointer(struct sa_cfi_reader *r, uint8_t encoding);

/*
 * Reads an FDE. Stores its CIE, its addresses [*ret_start, *ret_end), and the position of its
 * augmentation data, after which its instructions come. False: this code cannot read the entry.
 */
bool sa_cfi_fde(const uint8_t *fde, struct sa_cfi_cie *ret_cie, uintptr_t *ret_start,
                uintptr_t *ret_end, struct sa_cfi_reader *ret_program);

#endif
