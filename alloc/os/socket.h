/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unix sockets, for the control socket (alloc/api/control/control.h) and for outputs (file.h). The
 * control socket's name is in the abstract namespace: no file is left behind, and the kernel
 * forgets a name with its last descriptor. Functions return a descriptor, or 0, or a negative
 * errno. No state.
 */
#ifndef SA_OS_SOCKET_H
#define SA_OS_SOCKET_H

#include <stdbool.h>
#include <stddef.h>

#define SA_SOCKET_NAME_MAX 64

/* Listens at a name (without the zero byte that makes it abstract). Descriptors of this file are
 * closed by exec, and do not block. */
int sa_socket_listen(const char *name);

/* Connects to a stream socket at a path. waits: until it accepts; otherwise -EAGAIN. The descriptor
 * blocks then, too. */
int sa_socket_connect(const char *path, bool waits);

/* Accepts a connection that poll has announced. */
int sa_socket_accept(int fd);

/* Waits up to `ms` for input from a connection. Returns the events; 0: none in time; -ECANCELED:
 * the listening socket was closed or shut down. */
int sa_socket_wait(int fd, int listener, unsigned ms);

/* Returns the number that the kernel gives for all users who have none in this user namespace. */
unsigned sa_socket_unmapped_user(void);

/*
 * Whether the process that has connected belonged to root, or to the only user of this process: its
 * real, effective and saved one. This process then must also be one that its user may look into
 * (PR_GET_DUMPABLE). Nobody with the number `unmapped` may: different users share it.
 */
bool sa_socket_peer_may(int fd, unsigned unmapped);

/* Sends all bytes at once, or fails. A peer that has gone causes no signal. */
int sa_socket_send(int fd, const void *data, size_t bytes);

/* Ends what others do with the socket: a poll of it returns. */
void sa_socket_shutdown(int fd);

#endif
