/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The HTTP server of `sallocctl serve`, on libmicrohttpd. One thread; answers are made by jobs
 * (job.h), so a request never waits for another one's reading. Connections are bounded in number
 * and in time.
 */
#ifndef SA_TOOL_SERVE_SERVER_H
#define SA_TOOL_SERVE_SERVER_H

#include "tool/serve/job.h"
#include "tool/serve/listen.h"

/*
 * Says where on stdout, and serves until SIGTERM or SIGINT. user: with whose rights TCP clients
 * read; those of a Unix socket read with their own, if the server is root's.
 */
bool sa_serve(const struct sa_serve_listener *listener, const struct sa_serve_user *user,
              struct sa_error *e);

#endif
