/* SPDX-License-Identifier: Apache-2.0 */
/* Where the server listens. */
#ifndef SA_TOOL_SERVE_LISTEN_H
#define SA_TOOL_SERVE_LISTEN_H

#include "tool/base/error.h"

#include <stdbool.h>
#include <sys/types.h>

#define SA_SERVE_PATH_MAX 108 /* bytes of struct sockaddr_un */

struct sa_serve_listener {
    int fd;
    bool tcp;
    char path[SA_SERVE_PATH_MAX]; /* of a Unix socket */
    dev_t device;                 /* of that socket: it is removed only while it is this one */
    ino_t inode;
    char shown[192]; /* for people */
};

/*
 * Listens at an address: a path, for a Unix socket, which only its owner may use (mode 0600); or
 * HOST:PORT, where HOST is localhost, 127.0.0.1 or [::1]. NULL: a Unix socket in the user's folder
 * for such, which is /run for root.
 */
bool sa_serve_listen(const char *address, struct sa_serve_listener *ret, struct sa_error *e);

/* Closes it, and removes a Unix socket. */
void sa_serve_listen_end(struct sa_serve_listener *listener);

/* Whether the header Host of a request names this machine alone. A browser sends the name that a
 * page used, so a name that an attacker has pointed here is refused. NULL: no header. */
bool sa_serve_host_is_local(const char *host);

#endif
