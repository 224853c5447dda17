/* SPDX-License-Identifier: Apache-2.0 */
/* Reports that the options ask for, written when the process exits. */
#ifndef SA_API_AT_EXIT_H
#define SA_API_AT_EXIT_H

/* Arranges for the reports that the options ask for. */
void sa_at_exit_register(void);

/* In the child. */
void sa_at_exit_after_fork(void);

#endif
