/* SPDX-License-Identifier: Apache-2.0 */
/* Sockets to listen at; see listen.h. No state. */
#include "tool/serve/listen.h"

#include "tool/base/units.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define BACKLOG 128
#define NAME    "sallocctl.sock"

/* Where a Unix socket goes that has no name. */
static bool default_path(char *ret, size_t cap, struct sa_error *e)
{
    const char *folder = geteuid() == 0 ? "/run" : getenv("XDG_RUNTIME_DIR");

    if (folder && *folder == '/' && snprintf(ret, cap, "%s/" NAME, folder) < (int)cap)
        return true;
    sa_error_set(e, SA_EXIT_USAGE,
                 "XDG_RUNTIME_DIR is not set: name a path with --listen, in a folder of yours");
    return false;
}

/* Removes a socket at which nobody listens. Anything else stays; a listener whose queue is full
 * makes connect fail otherwise. */
static void remove_left_over(const struct sockaddr_un *at)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct stat s;

    if (fd < 0)
        return;
    if (lstat(at->sun_path, &s) == 0 && S_ISSOCK(s.st_mode) && s.st_uid == geteuid() &&
        connect(fd, (const struct sockaddr *)at, sizeof(*at)) != 0 && errno == ECONNREFUSED)
        unlink(at->sun_path);
    close(fd);
}

static bool listen_unix(const char *path, struct sa_serve_listener *ret, struct sa_error *e)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    struct stat s;
    mode_t mask;
    int failed;

    if (strlen(path) >= sizeof(at.sun_path)) {
        sa_error_set(e, SA_EXIT_USAGE, "%s: the path of a socket has at most %zu bytes", path,
                     sizeof(at.sun_path) - 1);
        return false;
    }
    strcpy(at.sun_path, path);
    remove_left_over(&at);
    ret->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    mask = umask(0177); /* from the first moment */
    failed = ret->fd < 0 || bind(ret->fd, (struct sockaddr *)&at, sizeof(at)) != 0 ? errno : 0;
    umask(mask);
    if (!failed && (listen(ret->fd, BACKLOG) != 0 || lstat(path, &s) != 0))
        failed = errno;
    if (failed) {
        sa_error_set(e, SA_EXIT_FAILED, "%s: %s", path, strerror(failed));
        return false;
    }
    strcpy(ret->path, path);
    ret->device = s.st_dev;
    ret->inode = s.st_ino;
    snprintf(ret->shown, sizeof(ret->shown), "%s", path);
    return true;
}

/* HOST:PORT as an address of this machine. */
static bool parse_tcp(const char *address, struct sockaddr_storage *ret, socklen_t *ret_bytes,
                      struct sa_error *e)
{
    const char *colon = strrchr(address, ':');
    struct sockaddr_in *v4 = (struct sockaddr_in *)ret;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)ret;
    size_t length = colon ? (size_t)(colon - address) : 0;
    char host[64];
    uint64_t port;

    memset(ret, 0, sizeof(*ret));
    if (!colon || !sa_units_number(colon + 1, UINT16_MAX, &port) || length >= sizeof(host)) {
        sa_error_set(e, SA_EXIT_USAGE, "--listen: %s is neither a path nor HOST:PORT", address);
        return false;
    }
    memcpy(host, address, length);
    host[length] = '\0';
    if (strcmp(host, "localhost") == 0 || strcmp(host, "127.0.0.1") == 0) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons((uint16_t)port);
        v4->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        *ret_bytes = sizeof(*v4);
    } else if (strcmp(host, "[::1]") == 0) {
        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons((uint16_t)port);
        v6->sin6_addr = in6addr_loopback;
        *ret_bytes = sizeof(*v6);
    } else {
        sa_error_set(e, SA_EXIT_USAGE,
                     "--listen: %s is not this machine alone: the server has no passwords, so it "
                     "listens at localhost, 127.0.0.1 or [::1] only",
                     host);
        return false;
    }
    return true;
}

static bool listen_tcp(const char *address, struct sa_serve_listener *ret, struct sa_error *e)
{
    struct sockaddr_storage at;
    socklen_t bytes = 0;
    int on = 1;

    if (!parse_tcp(address, &at, &bytes, e))
        return false;
    ret->tcp = true;
    ret->fd = socket(at.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (ret->fd < 0 || setsockopt(ret->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
        bind(ret->fd, (struct sockaddr *)&at, bytes) != 0 || listen(ret->fd, BACKLOG) != 0 ||
        getsockname(ret->fd, (struct sockaddr *)&at, &bytes) != 0) {
        sa_error_set(e, SA_EXIT_FAILED, "%s: %s", address, strerror(errno));
        return false;
    }
    snprintf(ret->shown, sizeof(ret->shown), "http://%.*s:%u/",
             (int)(strrchr(address, ':') - address), address,
             ntohs(((struct sockaddr_in *)&at)->sin_port)); /* of IPv6, the port lies there, too */
    return true;
}

bool sa_serve_listen(const char *address, struct sa_serve_listener *ret, struct sa_error *e)
{
    char path[SA_SERVE_PATH_MAX];
    bool fine;

    *ret = (struct sa_serve_listener){.fd = -1};
    if (!address)
        fine = default_path(path, sizeof(path), e) && listen_unix(path, ret, e);
    else if (strchr(address, '/'))
        fine = listen_unix(address, ret, e);
    else
        fine = listen_tcp(address, ret, e);
    if (!fine)
        sa_serve_listen_end(ret);
    return fine;
}

void sa_serve_listen_end(struct sa_serve_listener *listener)
{
    struct stat s;

    if (listener->path[0] && lstat(listener->path, &s) == 0 && s.st_dev == listener->device &&
        s.st_ino == listener->inode)
        unlink(listener->path);
    if (listener->fd >= 0)
        close(listener->fd);
    *listener = (struct sa_serve_listener){.fd = -1};
}

bool sa_serve_host_is_local(const char *host)
{
    static const char *const names[] = {"localhost", "127.0.0.1", "[::1]"};

    for (size_t i = 0; host && i < sizeof(names) / sizeof(*names); i++) {
        size_t n = strlen(names[i]);
        const char *port = host + n;

        if (strncasecmp(host, names[i], n) == 0 &&
            (!*port || (*port == ':' && port[1 + strspn(port + 1, "0123456789")] == '\0')))
            return true;
    }
    return false;
}
