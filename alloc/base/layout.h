/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The library's description of itself for debuggers (debug/library.py) and sallocctl (tool/): where
 * its variables lie, and where the fields of its records. It is part of the library, so that it
 * always fits it, and is found by the name of its section, so that neither debug information nor
 * symbols are needed. The library never reads it: it costs no memory in a process.
 *
 * The section is a list of struct sa_layout. Places that hold 0 between the records of two files
 * are padding.
 */
#ifndef SA_BASE_LAYOUT_H
#define SA_BASE_LAYOUT_H

#include "alloc/base/attrs.h"

#include <stddef.h>
#include <stdint.h>

#define SA_LAYOUT_NAME 48 /* bytes of a name, which ends with a 0 */

struct sa_layout {
    char name[SA_LAYOUT_NAME];
    int64_t value;
};

/* The constants of a file. A variable of no use to the file, for the section: SA_LAYOUT = { ...
 * }; */
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

/* The offset in the lower half, the size in the upper. */
#define SA_LAYOUT_FIELD(type, field)                                                               \
    {                                                                                              \
#type "." #field,                                                                          \
            (int64_t)(offsetof(type, field) | (uint64_t)sizeof(((type *)0)->field) << 32)          \
    }

/* A variable that other files know: its distance from the value's own place, which the linker
 * knows. */
#define SA_LAYOUT_ADDRESS(variable) __asm__(SA_LAYOUT_PLACE(#variable, #variable))

/* The same of a static one, which is then named for its file. The function is never called: link-
 * time optimization renames static variables, and knows that only of operands. */
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

#ifdef __aarch64__
#define SA_LAYOUT_SYMBOL  "%0"
#define SA_LAYOUT_OPERAND "S"
#else
#define SA_LAYOUT_SYMBOL  "%c0"
#define SA_LAYOUT_OPERAND "i"
#endif

/* The type of the note that says where the section is (alloc/api/layout_table.c): "sall". */
#define SA_LAYOUT_NOTE 0x6c6c6173

SA_STATIC_ASSERT(SA_LAYOUT_NAME == 48, "as in SA_LAYOUT_PLACE");

#endif
