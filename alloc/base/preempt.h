/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Delays threads at random, in a build with -Dpreempt_stress=true: at every acquire and release of
 * a lock, and at every atomic step that orders others. A delay is a switch to another thread or up
 * to 0.2 ms of sleep. Code that is right only because the next instruction usually follows at once
 * fails in such a build. Other builds contain no code for this.
 */
#ifndef SA_BASE_PREEMPT_H
#define SA_BASE_PREEMPT_H

#ifdef SA_PREEMPT
void sa_preempt(void); /* keeps errno; for signal handlers too */
#else
#define sa_preempt() ((void)0)
#endif

#endif
