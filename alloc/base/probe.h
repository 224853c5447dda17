/* SPDX-License-Identifier: Apache-2.0 */
/*
 * USDT probes: places in the code that perf, bpftrace, SystemTap and gdb find by name, and can
 * attach to in a running process. A probe is a nop, and a note in a section that is not loaded. The
 * note says where the nop is, and where its arguments are. The format is that of SystemTap's
 * sys/sdt.h, which is not needed to build
 * (sourceware.org/systemtap/wiki/UserSpaceProbeImplementation).
 *
 * Arguments are integers of 8 bytes in registers or memory. They must cost nothing to have there,
 * because the nop is passed whether or not a tool is attached.
 */
#ifndef SA_BASE_PROBE_H
#define SA_BASE_PROBE_H

#include "alloc/base/attrs.h"

#include <stdint.h>

#ifdef __x86_64__
#define SA_PROBE_OPERAND "nor"
#else
#define SA_PROBE_OPERAND "nr"
#endif

/* Note: the address of the nop, of the base (which moves with the nop, should a tool relink the
 * file), of a semaphore (none); then provider, name and arguments. */
#define SA_PROBE_NOTE(name, arguments)                                                             \
    "990: nop\n\t"                                                                                 \
    ".pushsection .note.stapsdt,\"\",%%note\n\t"                                                   \
    ".balign 4\n\t"                                                                                \
    ".4byte 992f-991f, 994f-993f, 3\n\t"                                                           \
    "991: .asciz \"stapsdt\"\n\t"                                                                  \
    "992: .balign 4\n\t"                                                                           \
    "993: .8byte 990b\n\t"                                                                         \
    ".8byte _.stapsdt.base\n\t"                                                                    \
    ".8byte 0\n\t"                                                                                 \
    ".asciz \"salloc\"\n\t"                                                                        \
    ".asciz \"" name "\"\n\t"                                                                      \
    ".asciz \"" arguments "\"\n\t"                                                                 \
    "994: .balign 4\n\t"                                                                           \
    ".popsection\n\t"                                                                              \
    ".ifndef _.stapsdt.base\n\t"                                                                   \
    ".pushsection .stapsdt.base,\"aG\",%%progbits,.stapsdt.base,comdat\n\t"                        \
    ".weak _.stapsdt.base\n\t"                                                                     \
    ".hidden _.stapsdt.base\n\t"                                                                   \
    "_.stapsdt.base: .space 1\n\t"                                                                 \
    ".size _.stapsdt.base, 1\n\t"                                                                  \
    ".popsection\n\t"                                                                              \
    ".endif"

/* A probe of the name "salloc:name" with five arguments. */
#define SA_PROBE5(name, a, b, c, d, e)                                                             \
    __asm__ volatile(SA_PROBE_NOTE(#name, "8@%0 8@%1 8@%2 8@%3 8@%4")::SA_PROBE_OPERAND(a),        \
                     SA_PROBE_OPERAND(b), SA_PROBE_OPERAND(c), SA_PROBE_OPERAND(d),                \
                     SA_PROBE_OPERAND(e))

#endif
