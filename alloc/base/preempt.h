/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preemption where it hurts, in a build that is for this (-Dpreempt_stress=true): every acquire and
 * release of a lock, and every atomic step that orders others, is now and then held up, for the
 * time of a switch to another thread or for longer, so that what is only right because the next
 * instruction usually follows at once fails. In any other build there is nothing of it.
 */
#ifndef SA_BASE_PREEMPT_H
#define SA_BASE_PREEMPT_H

#ifdef SA_PREEMPT
void sa_preempt(void); /* keeps errno; for signal handlers too */
#else
#define sa_preempt() ((void)0)
#endif

#endif
