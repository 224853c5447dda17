/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The library's description of itself for debuggers (debug/library.py): where its variables lie,
 * and where the fields of its records. It is part of the library, so that it always fits it, and is
 * found by the name of its section, so that neither debug information nor symbols are needed. The
 * library never reads it: it costs no memory in a process.
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

/* A variable, also a static one, which is then named for its file: its distance from the value's
 * own place, which the linker knows. */
#define SA_LAYOUT_ADDRESS(variable) SA_LAYOUT_NAMED_ADDRESS(#variable, variable)

#define SA_LAYOUT_NAMED_ADDRESS(name, variable)                                                    \
    __asm__(".pushsection salloc_layout,\"a\"\n\t"                                                 \
            ".balign 8\n\t"                                                                        \
            "1: .asciz \"&" name "\"\n\t"                                                          \
            ".zero 48 - (. - 1b)\n\t"                                                              \
            ".quad " #variable " - .\n\t"                                                          \
            ".popsection")

SA_STATIC_ASSERT(SA_LAYOUT_NAME == 48, "as in SA_LAYOUT_NAMED_ADDRESS");

#endif
