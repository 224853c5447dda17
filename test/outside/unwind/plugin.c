/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A library that calls back, through a frame of FRAME bytes. Two of them with frames of different
 * sizes have the same code at the same places otherwise.
 */
#ifndef FRAME
#define FRAME 0
#endif

__attribute__((visibility("default"))) void plugin_call(void (*fn)(void))
{
    volatile char frame[FRAME + 1];

    frame[0] = frame[FRAME] = 1;
    fn();
    frame[0] = 2;
}
