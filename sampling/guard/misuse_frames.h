/* SPDX-License-Identifier: Apache-2.0 */
/* The frames of a stack as lines of a report. */
#ifndef SA_SAMPLING_GUARD_MISUSE_FRAMES_H
#define SA_SAMPLING_GUARD_MISUSE_FRAMES_H

#include <stdint.h>

/*
 * Writes a line for each frame: "    #0 /usr/bin/program+0x1234 function". addr2line takes the
 * offset. pc: as sa_stack_capture returns it. Frames beyond SA_STACK_MAX are left out. Called by
 * the thread that reports. Needs about 12 KiB of stack, takes no lock, and maps its own memory.
 */
void sa_misuse_frames(const uintptr_t *pc, unsigned depth);

#endif
