/* SPDX-License-Identifier: Apache-2.0 */
/* The report that the option `stats` asks for, written when the process exits. */
#ifndef SA_API_AT_EXIT_H
#define SA_API_AT_EXIT_H

/* Checks the destination of the report and registers the exit handler; does nothing without the
 * option. Called once, by the constructor. */
void sa_at_exit_register(void);

/* Called in a child of fork: the child has no copy of the parent's descriptor. */
void sa_at_exit_after_fork(void);

#endif
