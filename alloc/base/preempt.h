/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Delays threads at random, in a build with -Dpreempt_stress=true: at every acquire and release of
 * a lock, and at every atomic access that orders others. A delay is a switch to another thread, or
 * up to 0.2 ms of sleep. Code fails in such a build if it is correct only because its next
 * instruction usually follows at once. Other builds contain no code for delays.
 */
#ifndef SA_BASE_PREEMPT_H
#define SA_BASE_PREEMPT_H

#ifdef SA_PREEMPT
void sa_preempt(void); /* errno stays; async-signal-safe */
#else
#define sa_preempt() ((void)0)
#endif

#endif
