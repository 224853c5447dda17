/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The library's description of itself, for debuggers (debug/library.py) and sallocctl (tool/):
 * where its variables lie, and the offsets and sizes of the fields of its records. The description
 * is a section of the library, so that it always matches the code. Readers find the section by its
 * name, and need neither debug information nor symbols. The library never reads the section, so a
 * process has no memory for it.
 *
 * The section is an array of struct sa_layout. Zeros between the records of two files are padding.
 * All of it is constant.
 */
#ifndef SA_BASE_LAYOUT_H
#define SA_BASE_LAYOUT_H

#include "alloc/base/attrs.h"

#include <stddef.h>
#include <stdint.h>

#define SA_LAYOUT_NAME 48 /* bytes of a name, with its terminator */

struct sa_layout {
    char name[SA_LAYOUT_NAME];
    int64_t value;
};

/* Puts constants of a file into the section: SA_LAYOUT = { ... };. No code of the file uses the
 * variable. */
#define SA_LAYOUT                                                                                  \
    static const struct sa_layout sa_layout_here[]                                                 \
        __attribute__((section("salloc_layout"), used, aligned(8)))

#define SA_LAYOUT_VALUE(constant)                                                                  \
    {                                                                                              \
#constant, constant                                                                        \
    }
#define SA_LAYOUT_SIZE(type)                                                                       \
    {                                                                                              \
#type, sizeof(type)                                                                        \
    }

/* The offset of a field in the lower 32 bits, its size in the upper 32. */
#define SA_LAYOUT_FIELD(type, field)                                                               \
    {                                                                                              \
#type "." #field,                                                                          \
            (int64_t)(offsetof(type, field) | (uint64_t)sizeof(((type *)0)->field) << 32)          \
    }

/*
 * What reports show (stats/): a field of a variable, whose place is described under the same name.
 * sallocctl copies all of these from a process to its own variables, and makes the report there
 * (tool/stats/). STATE_ALL: a whole variable. STATE_EACH: a field of each element of an array,
 * whose elements STATE_ARRAY describes.
 */
#define SA_LAYOUT_STATE(name, variable, field)                                                     \
    {                                                                                              \
        "=" name "." #field, (int64_t)(offsetof(__typeof__(variable), field) |                     \
                                       (uint64_t)sizeof((variable).field) << 32)                   \
    }
#define SA_LAYOUT_STATE_ALL(name, variable)                                                        \
    {                                                                                              \
        "=" name, (int64_t)((uint64_t)sizeof(variable) << 32)                                      \
    }
#define SA_LAYOUT_STATE_EACH(name, variable, field)                                                \
    {                                                                                              \
        "=" name "[]." #field, (int64_t)(offsetof(__typeof__((variable)[0]), field) |              \
                                         (uint64_t)sizeof((variable)[0].field) << 32)              \
    }
#define SA_LAYOUT_STATE_ARRAY(name, variable)                                                      \
    {                                                                                              \
        "=" name "[]", (int64_t)(sizeof((variable)[0]) |                                           \
                                 (uint64_t)(sizeof(variable) / sizeof((variable)[0])) << 32)       \
    }

/* A variable with external linkage. The value is the distance from the value's own place to the
 * variable, which the linker knows. */
#define SA_LAYOUT_ADDRESS(variable) __asm__(SA_LAYOUT_PLACE(#variable, #variable))

/* For the definition of such a variable: link-time optimization does not see what an asm statement
 * names, and may give the variable another name. */
#define SA_LAYOUT_USED __attribute__((used))

/* The same for a static variable, whose name is chosen here. The operand of an asm statement in a
 * function that is never called names the variable: link-time optimization renames static
 * variables, and adjusts only operands. */
#define SA_LAYOUT_STATIC_ADDRESS(name, variable)                                                   \
    SA_RARE __attribute__((used)) static void layout_of_##variable(void)                           \
    {                                                                                              \
        __asm__(SA_LAYOUT_PLACE(name, SA_LAYOUT_SYMBOL)::SA_LAYOUT_OPERAND(&variable));            \
    }                                                                                              \
    SA_STATIC_ASSERT(sizeof(variable), "ends with a semicolon")

#define SA_LAYOUT_PLACE(name, symbol)                                                              \
    ".pushsection salloc_layout,\"a\"\n\t"                                                         \
    ".balign 8\n\t"                                                                                \
    "1: .asciz \"&" name "\"\n\t"                                                                  \
    ".zero 48 - (. - 1b)\n\t"                                                                      \
    ".quad " symbol " - .\n\t"                                                                     \
    ".popsection"

#ifdef __x86_64__
#define SA_LAYOUT_SYMBOL  "%c0"
#define SA_LAYOUT_OPERAND "i"
#else
#define SA_LAYOUT_SYMBOL  "%0"
#define SA_LAYOUT_OPERAND "S"
#endif

/* The type of the note that says where the section is (alloc/api/layout_table.c): "sall" in
 * ASCII. */
#define SA_LAYOUT_NOTE 0x6c6c6173

SA_STATIC_ASSERT(SA_LAYOUT_NAME == 48, "as in SA_LAYOUT_PLACE");

#endif
