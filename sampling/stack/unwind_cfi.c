/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the instructions of call frame information, and makes rules of the result (unwind_cfi.h). */
#include "sampling/stack/unwind_cfi.h"

#include "alloc/base/attrs.h"
#include "alloc/base/fatal.h"
#include "sampling/stack/unwind.h"
#include "sampling/stack/unwind_entry.h"

#ifdef SA_UNWIND_FAST

#include <string.h>

#define REG_RBP 6 /* DWARF's register numbers on x86-64 */
#define REG_RSP 7
#define REG_R10 10

#define SAVED_ROWS 4 /* nested remember_state instructions; compilers nest 1 */

/* Where the caller's value of a register is. */
enum how {
    HOW_SAME,          /* in the register */
    HOW_AT_CFA,        /* stored at CFA + offset */
    HOW_AT_EXPRESSION, /* stored at the value of the expression */
    HOW_UNDEFINED,     /* lost; for the return address: the outermost frame */
    HOW_OTHER          /* elsewhere: not followed */
};

struct reg {
    enum how how;
    int64_t offset;
    const uint8_t *expression; /* its length in LEB128, and its bytes */
};

/* One row of the unwind table: the registers that are followed, for one address. */
struct row {
    struct reg cfa;        /* HOW_AT_CFA: cfa_register + offset; otherwise an expression */
    uint64_t cfa_register; /* DWARF's number */
    struct reg rbp, rsp, ra;
};

/* The state of the interpreter. */
struct program {
    struct sa_cfi_cie *cie;
    struct row row;               /* of `location` */
    struct row first;             /* after the instructions of the CIE, for restore */
    struct row saved[SAVED_ROWS]; /* by remember_state */
    unsigned depth;               /* rows saved */
    uintptr_t location;           /* first code address of the row */
};

/* --- instructions --- */

/* Returns the register with DWARF's number, or NULL if it is not followed. */
static struct reg *reg_of(struct row *row, uint64_t number)
{
    return number == REG_RBP     ? &row->rbp
           : number == REG_RSP   ? &row->rsp
           : number == SA_CFI_RA ? &row->ra
                                 : NULL;
}

static void set_reg(struct program *p, uint64_t number, enum how how, int64_t offset)
{
    struct reg *reg = reg_of(&p->row, number);

    if (reg)
        *reg = (struct reg){how, offset, NULL};
}

SA_RARE static void restore_reg(struct program *p, uint64_t number)
{
    struct reg *reg = reg_of(&p->row, number);

    if (reg)
        *reg = *reg_of(&p->first, number);
}

/* Passes over an expression, and returns where its length is. The reader fails if it does not
 * fit. */
static const uint8_t *read_block(struct sa_cfi_reader *r)
{
    const uint8_t *block = r->at;
    uint64_t bytes = sa_cfi_leb(r, false);

    if (sa_cfi_has(r, bytes))
        r->at += bytes;
    return block;
}

static void set_expression(struct program *p, struct sa_cfi_reader *r)
{
    struct reg *reg = reg_of(&p->row, sa_cfi_leb(r, false));
    const uint8_t *block = read_block(r);

    if (reg)
        *reg = (struct reg){HOW_AT_EXPRESSION, 0, block};
}

static void set_cfa(struct program *p, uint64_t number, int64_t offset)
{
    p->row.cfa = (struct reg){HOW_AT_CFA, offset, NULL};
    p->row.cfa_register = number;
}

/* Reads an offset in units of the CIE. */
static int64_t read_factored(struct program *p, struct sa_cfi_reader *r, bool is_signed)
{
    return (int64_t)(sa_cfi_leb(r, is_signed) * (uint64_t)p->cie->data_align);
}

/* Runs an instruction whose first byte has no operand in it. */
static void run_extended(struct program *p, struct sa_cfi_reader *r, uint8_t op)
{
    uint64_t number;

    switch (op) {
    case 0x00: /* nop */
        break;
    case 0x01: /* set_loc */
        p->location = sa_cfi_pointer(r, p->cie->pointer_encoding);
        break;
    case 0x02: /* advance_loc1, 2, 4 */
    case 0x03:
    case 0x04:
        p->location += sa_cfi_bytes(r, 1u << (op - 2)) * p->cie->code_align;
        break;
    case 0x05: /* offset_extended, signed */
    case 0x11:
        number = sa_cfi_leb(r, false);
        set_reg(p, number, HOW_AT_CFA, read_factored(p, r, op == 0x11));
        break;
    case 0x06: /* restore_extended */
        restore_reg(p, sa_cfi_leb(r, false));
        break;
    case 0x07: /* undefined */
        set_reg(p, sa_cfi_leb(r, false), HOW_UNDEFINED, 0);
        break;
    case 0x08: /* same_value */
        set_reg(p, sa_cfi_leb(r, false), HOW_SAME, 0);
        break;
    case 0x09: /* register */
    case 0x14: /* val_offset */
    case 0x15: /* val_offset_sf */
        set_reg(p, sa_cfi_leb(r, false), HOW_OTHER, 0);
        sa_cfi_leb(r, false);
        break;
    case 0x0a: /* remember_state */
        SA_DCHECK(p->depth <= SAVED_ROWS);
        r->failed |= p->depth == SAVED_ROWS;
        if (!r->failed)
            p->saved[p->depth++] = p->row;
        break;
    case 0x0b: /* restore_state */
        r->failed |= p->depth == 0;
        if (!r->failed)
            p->row = p->saved[--p->depth];
        break;
    case 0x0c: /* def_cfa, signed */
        number = sa_cfi_leb(r, false);
        set_cfa(p, number, (int64_t)sa_cfi_leb(r, false));
        break;
    case 0x12:
        number = sa_cfi_leb(r, false);
        set_cfa(p, number, read_factored(p, r, true));
        break;
    case 0x0d: /* def_cfa_register */
        set_cfa(p, sa_cfi_leb(r, false), p->row.cfa.offset);
        break;
    case 0x0e: /* def_cfa_offset, signed */
        set_cfa(p, p->row.cfa_register, (int64_t)sa_cfi_leb(r, false));
        break;
    case 0x13:
        set_cfa(p, p->row.cfa_register, read_factored(p, r, true));
        break;
    case 0x0f: /* def_cfa_expression */
        p->row.cfa = (struct reg){HOW_AT_EXPRESSION, 0, read_block(r)};
        break;
    case 0x10: /* expression */
        set_expression(p, r);
        break;
    case 0x16: /* val_expression */
        set_reg(p, sa_cfi_leb(r, false), HOW_OTHER, 0);
        read_block(r);
        break;
    case 0x2e: /* GNU_args_size */
        sa_cfi_leb(r, false);
        break;
    case 0x2f: /* GNU_negative_offset_extended */
        number = sa_cfi_leb(r, false);
        set_reg(p, number, HOW_AT_CFA, -read_factored(p, r, false));
        break;
    default:
        r->failed = true;
    }
}

/* Runs the instructions up to the row of the address. False: one is unknown or damaged. */
static bool run(struct program *p, struct sa_cfi_reader *r, uintptr_t address)
{
    while (r->at < r->end && !r->failed && p->location <= address) {
        uint8_t op = (uint8_t)sa_cfi_bytes(r, 1), low = op & 0x3f;

        switch (op & 0xc0) {
        case 0x40: /* advance_loc */
            p->location += low * p->cie->code_align;
            break;
        case 0x80: /* offset */
            set_reg(p, low, HOW_AT_CFA, read_factored(p, r, false));
            break;
        case 0xc0: /* restore */
            restore_reg(p, low);
            break;
        default:
            run_extended(p, r, op);
        }
    }
    return !r->failed;
}

/* --- rules --- */

/* Returns whether an expression is the register plus an offset, and stores the offset. stored: the
 * expression is the word at that address instead. */
SA_RARE static bool simple(const struct reg *reg, unsigned number, bool stored, int64_t *ret_offset)
{
    struct sa_cfi_reader r = {reg->expression, reg->expression + 10, 0, false};
    uint64_t bytes = sa_cfi_leb(&r, false);

    r.end = r.at + bytes;                     /* read_block has checked that they are there */
    if (sa_cfi_bytes(&r, 1) != 0x70 + number) /* DW_OP_breg */
        return false;
    *ret_offset = (int64_t)sa_cfi_leb(&r, true);
    if (stored && sa_cfi_bytes(&r, 1) != 0x06) /* DW_OP_deref */
        return false;
    return !r.failed && r.at == r.end;
}

/*
 * Returns whether an expression is the one that linkers write for the procedure linkage table, and
 * stores its value as an offset from rsp. All entries of the table share a description: rsp + 8,
 * and 8 more from a certain byte of the entry's 16 on. For one address that is a constant.
 */
static bool is_plt(const struct reg *reg, uintptr_t address, int64_t *ret_offset)
{
    /* DW_OP_breg7 8, breg16 0, lit15, and, lit<byte>, ge, lit3, shl, plus */
    static const uint8_t before[] = {0x77, 8, 0x80, 0, 0x3f, 0x1a},
                         after[] = {0x2a, 0x33, 0x24, 0x22};
    const uint8_t *e = reg->expression;

    if (e[0] != 11 || memcmp(e + 1, before, sizeof(before)) != 0 || e[7] < 0x30 || e[7] > 0x3f ||
        memcmp(e + 8, after, sizeof(after)) != 0)
        return false;
    *ret_offset = (address & 15) >= e[7] - 0x30u ? 16 : 8;
    return true;
}

/* Returns the rule of a frame that returns from a signal handler: registers are stored at constant
 * offsets from rsp, which are multiples of 8 up to 0x7ff8. */
static uint64_t signal_rule(const struct row *row)
{
    int64_t cfa, rbp, ra;

    if (row->cfa.how != HOW_AT_EXPRESSION || row->rbp.how != HOW_AT_EXPRESSION ||
        row->ra.how != HOW_AT_EXPRESSION || !simple(&row->cfa, REG_RSP, true, &cfa) ||
        !simple(&row->rbp, REG_RSP, false, &rbp) || !simple(&row->ra, REG_RSP, false, &ra) ||
        (cfa | rbp | ra) & ~(int64_t)0x7ff8)
        return SA_RULE_OTHER;
    return SA_RULE_SIGNAL | (uint64_t)rbp << 16 | (uint64_t)cfa << 32 | (uint64_t)ra << 48;
}

/* Returns the rule of an ordinary frame. */
static uint64_t frame_rule(const struct row *row, uintptr_t address)
{
    uint64_t rule = SA_RULE_FRAME;
    int64_t cfa = row->cfa.offset, rbp = row->rbp.offset;

    if (row->cfa.how == HOW_AT_EXPRESSION) {
        if (simple(&row->cfa, REG_RBP, true, &cfa))
            rule |= SA_RULE_CFA_STORED | SA_RULE_CFA_RBP;
        else if (!is_plt(&row->cfa, address, &cfa))
            return SA_RULE_OTHER;
    } else if (row->cfa_register == REG_RBP) {
        rule |= SA_RULE_CFA_RBP;
    } else if (row->cfa_register == REG_R10) {
        rule |= SA_RULE_CFA_R10;
    } else if (row->cfa_register != REG_RSP) {
        return SA_RULE_OTHER;
    }
    if (row->rbp.how == HOW_AT_CFA) {
        rule |= SA_RULE_RBP_AT_CFA;
    } else if (row->rbp.how == HOW_AT_EXPRESSION) {
        if (!simple(&row->rbp, REG_RBP, false, &rbp))
            return SA_RULE_OTHER;
        rule |= SA_RULE_RBP_AT_RBP;
    } else if (row->rbp.how != HOW_SAME) {
        return SA_RULE_OTHER;
    }
    if (row->ra.how != HOW_AT_CFA || row->ra.offset != -8 || row->rsp.how != HOW_SAME ||
        cfa != (int32_t)cfa || rbp != (int16_t)rbp)
        return SA_RULE_OTHER;
    return rule | (uint64_t)(uint16_t)rbp << 16 | (uint64_t)(uint32_t)cfa << 32;
}

/*
 * Returns whether the code at the address returns from a signal handler, for code without a
 * description. libgcc recognises it in the same way, by its bytes: mov $15, %rax; syscall.
 */
SA_RARE static bool returns_from_signal(const struct sa_unwind_object *object, uintptr_t address)
{
    static const uint8_t code[] = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05};

    for (unsigned i = 0; i < 2; i++) /* 1: the address is a return address less one */
        if (sa_unwind_object_has_code(object, address + i, sizeof(code)) &&
            memcmp((const void *)(address + i), code, sizeof(code)) == 0)
            return true;
    return false;
}

/* The rule of such code: the kernel's ucontext_t, at the stack pointer, has the registers. */
static const uint64_t plain_signal_rule = SA_RULE_SIGNAL | (uint64_t)SA_UCONTEXT_RBP << 16 |
                                          (uint64_t)SA_UCONTEXT_RSP << 32 |
                                          (uint64_t)SA_UCONTEXT_RIP << 48;

uint64_t sa_unwind_rule(const struct sa_unwind_object *object, uintptr_t address)
{
    struct sa_cfi_cie cie;
    struct program p;
    struct sa_cfi_reader program;
    const uint8_t *fde;
    uintptr_t end;

    switch (sa_unwind_object_fde(object, address, &fde)) {
    case SA_UNWIND_NONE:
        return returns_from_signal(object, address) ? plain_signal_rule : SA_RULE_NONE;
    case SA_UNWIND_FORMAT:
        return SA_RULE_OTHER;
    case SA_UNWIND_FDE:
        break;
    }
    memset(&p.row, 0, sizeof(p.row));
    p.depth = 0;
    if (!sa_cfi_fde(fde, &cie, &p.location, &end, &program))
        return SA_RULE_OTHER;
    if (address < p.location || address >= end)
        return returns_from_signal(object, address) ? plain_signal_rule : SA_RULE_NONE;
    /* The entry's augmentation data (the exception table) comes before its instructions. */
    p.cie = &cie;
    if (cie.augmented) {
        uint64_t bytes = sa_cfi_leb(&program, false);

        if (sa_cfi_has(&program, bytes))
            program.at += bytes;
    }
    if (!run(&p, &cie.program, UINTPTR_MAX))
        return SA_RULE_OTHER;
    p.first = p.row;
    if (!run(&p, &program, address))
        return SA_RULE_OTHER;
    if (p.row.ra.how == HOW_UNDEFINED)
        return SA_RULE_END;
    return cie.signal ? signal_rule(&p.row) : frame_rule(&p.row, address);
}

#endif
