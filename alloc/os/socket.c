/* SPDX-License-Identifier: Apache-2.0 */
/* Unix sockets; see socket.h. No variables. */
#include "alloc/os/socket.h"

#include "alloc/base/syscall.h"
#include "alloc/os/sys.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#define BACKLOG 8

int sa_socket_listen(const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t length = strlen(name);
    long failed = -ENAMETOOLONG;
    int fd;

    if (length > SA_SOCKET_NAME_MAX || length >= sizeof(address.sun_path))
        return (int)failed;
    fd = (int)sa_syscall(SYS_socket, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return fd;
    memcpy(address.sun_path + 1, name, length);
    failed =
        sa_syscall(SYS_bind, fd, &address, offsetof(struct sockaddr_un, sun_path) + 1 + length);
    if (!failed)
        failed = sa_syscall(SYS_listen, fd, BACKLOG);
    if (!failed)
        return fd;
    sa_sys_close(fd);
    return (int)failed;
}

int sa_socket_accept(int fd)
{
    return (int)sa_syscall(SYS_accept4, fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
}

bool sa_socket_peer_may(int fd)
{
    struct ucred peer = {0, (uid_t)-1, (gid_t)-1};
    socklen_t bytes = sizeof(peer);

    if (sa_syscall(SYS_getsockopt, fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0)
        return false;
    return peer.uid == 0 || peer.uid == (uid_t)sa_syscall(SYS_geteuid);
}

int sa_socket_send(int fd, const void *data, size_t bytes)
{
    long sent = sa_syscall(SYS_sendto, fd, data, bytes, MSG_NOSIGNAL | MSG_DONTWAIT, NULL, 0);

    return sent < 0 ? (int)sent : (size_t)sent < bytes ? -EAGAIN : 0;
}

void sa_socket_shutdown(int fd)
{
    sa_syscall(SYS_shutdown, fd, SHUT_RDWR);
}
