/* SPDX-License-Identifier: Apache-2.0 */
/* The handlers that make the allocator usable in a child of fork; see fork_handlers.c. */
#ifndef SA_API_PROCESS_FORK_HANDLERS_H
#define SA_API_PROCESS_FORK_HANDLERS_H

/* Registers the handlers. Called once, by the constructor. */
void sa_fork_register(void);

#endif
