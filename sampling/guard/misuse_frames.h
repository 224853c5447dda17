/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The frames of a stack as lines on stderr: "    #0 /usr/bin/program+0x1234 function". The offset
 * is what addr2line takes. Takes much of the stack, and no lock; memory only from mappings of its
 * own.
 */
#ifndef SA_SAMPLING_GUARD_MISUSE_FRAMES_H
#define SA_SAMPLING_GUARD_MISUSE_FRAMES_H

#include <stdint.h>

/* pc: as sa_stack_capture has it. */
void sa_misuse_frames(const uintptr_t *pc, unsigned depth);

#endif
