/* SPDX-License-Identifier: Apache-2.0 */
/* Unix sockets; see socket.h. No variables. */
#include "alloc/os/socket.h"

#include "alloc/base/syscall.h"
#include "alloc/os/sys.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

#define BACKLOG      8
#define OVERFLOW_UID 65534 /* the kernel's default */
#define DUMPABLE     1     /* the kernel's SUID_DUMP_USER */

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

int sa_socket_connect(const char *path, bool waits)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t length = strlen(path);
    long failed;
    int fd;

    if (length >= sizeof(address.sun_path))
        return -ENAMETOOLONG;
    fd = (int)sa_syscall(SYS_socket, AF_UNIX,
                         SOCK_STREAM | SOCK_CLOEXEC | (waits ? 0 : SOCK_NONBLOCK), 0);
    if (fd < 0)
        return fd;
    memcpy(address.sun_path, path, length + 1);
    failed = sa_syscall(SYS_connect, fd, &address, sizeof(address));
    if (!failed)
        return fd;
    sa_sys_close(fd);
    return (int)failed;
}

int sa_socket_accept(int fd)
{
    return (int)sa_syscall(SYS_accept4, fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
}

int sa_socket_wait(int fd, int listener, unsigned ms)
{
    struct timespec ts = {ms / 1000, (long)(ms % 1000) * 1000000};
    struct pollfd p[2] = {{.fd = fd, .events = POLLIN}, {.fd = listener}};
    long n = sa_syscall(SYS_ppoll, p, 2, &ts, NULL, 0);

    return n < 0 ? (int)n : p[1].revents ? -ECANCELED : n ? p[0].revents : 0;
}

unsigned sa_socket_unmapped_user(void)
{
    char text[16];
    unsigned uid = 0;

    if (sa_sys_read_file("/proc/sys/kernel/overflowuid", text, sizeof(text)) <= 0)
        return OVERFLOW_UID;
    for (const char *p = text; *p >= '0' && *p <= '9'; p++)
        uid = uid * 10 + (unsigned)(*p - '0');
    return uid;
}

bool sa_socket_peer_may(int fd, unsigned unmapped)
{
    struct ucred peer = {0, (uid_t)-1, (gid_t)-1};
    socklen_t bytes = sizeof(peer);
    uid_t real, effective, saved;

    if (sa_syscall(SYS_getsockopt, fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0 ||
        peer.uid == unmapped)
        return false;
    if (peer.uid == 0)
        return true;
    return sa_syscall(SYS_getresuid, &real, &effective, &saved) == 0 && peer.uid == real &&
           peer.uid == effective && peer.uid == saved &&
           sa_syscall(SYS_prctl, PR_GET_DUMPABLE, 0, 0, 0, 0) == DUMPABLE;
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
