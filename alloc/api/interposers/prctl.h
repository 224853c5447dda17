/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prctl, exported to notice a filter of system calls before the program installs it. A process
 * without privileges has to set PR_SET_NO_NEW_PRIVS first, whether it then installs the filter by
 * prctl or by seccomp. A name that the program gives to pages is noted, too (mark_calls.h).
 *
 * The call goes on unchanged: to an interposer behind this library, or else as the system call. It
 * does not go through libc's function, because children of vfork and of threaded programs call
 * prctl, too. No variables but the cache of a lookup.
 */
#ifndef SA_API_INTERPOSERS_PRCTL_H
#define SA_API_INTERPOSERS_PRCTL_H

/* Prepares for a filter while none is installed yet. */
void sa_prctl_filter_comes(void);

/* Does what a call of prctl needs before it goes on. a, b, c: its arguments after the option. */
void sa_prctl_note(int option, unsigned long a, unsigned long b, unsigned long c);

#endif
