/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unix sockets, for the control socket (alloc/api/control.h). Names are in the abstract namespace:
 * no file is left behind, and the kernel forgets a name with its last descriptor. Functions return
 * a descriptor, or 0, or a negative errno. No state.
 */
#ifndef SA_OS_SOCKET_H
#define SA_OS_SOCKET_H

#include <stdbool.h>
#include <stddef.h>

#define SA_SOCKET_NAME_MAX 64

/* Listens at a name (without the zero byte that makes it abstract). Descriptors of this file are
 * closed by exec, and do not block. */
int sa_socket_listen(const char *name);

/* Accepts a connection that poll has announced. */
int sa_socket_accept(int fd);

/* Whether the process that has connected belonged to this process's effective user, or to root. */
bool sa_socket_peer_may(int fd);

/* Sends all bytes at once, or fails. A peer that has gone causes no signal. */
int sa_socket_send(int fd, const void *data, size_t bytes);

/* Ends what others do with the socket: a poll of it returns. */
void sa_socket_shutdown(int fd);

#endif
