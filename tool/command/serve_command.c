/* SPDX-License-Identifier: Apache-2.0 */
/* sallocctl serve: profiles and metrics of all processes on salloc, over HTTP. */
#include "tool/command/command.h"

#include "tool/base/error.h"

#ifdef SA_SERVE
#include "tool/serve/server.h"
#endif

#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

extern const struct sa_command sa_command_serve;

struct options {
    const char *listen, *user;
};

#ifdef SA_SERVE

/* The user of that name. */
static bool find_user(const char *name, struct sa_serve_user *ret, struct sa_error *e)
{
    const struct passwd *entry;

    *ret = (struct sa_serve_user){.other = false};
    if (!name)
        return true;
    errno = 0;
    entry = getpwnam(name);
    if (!entry)
        sa_error_set(e, SA_EXIT_USAGE, "--user: there is no user %s", name);
    else if (geteuid() != 0 && entry->pw_uid != geteuid())
        sa_error_set(e, SA_EXIT_USAGE, "--user: only root can serve as another user");
    else
        *ret = (struct sa_serve_user){entry->pw_uid != geteuid(), entry->pw_uid, entry->pw_gid};
    return !e->code;
}

static void serve(const struct options *o, struct sa_error *e)
{
    struct sa_serve_listener listener;
    struct sa_serve_user user;

    if (!find_user(o->user, &user, e) || !sa_serve_listen(o->listen, &listener, e))
        return;
    if (listener.tcp && geteuid() == 0 && !o->user) {
        sa_error_set(e, SA_EXIT_USAGE,
                     "whoever can connect by TCP would see the heaps of all users: name the user "
                     "whose processes to show with --user; --user root: of all");
    } else {
        sa_serve(&listener, &user, e);
    }
    sa_serve_listen_end(&listener);
}

#else

static void serve(const struct options *o, struct sa_error *e)
{
    (void)o;
    sa_error_set(e, SA_EXIT_FAILED, "this sallocctl was built without libmicrohttpd");
}

#endif

static int run(const void *options, const struct sa_operands *operands, struct sa_error *e)
{
    (void)operands;
    serve(options, e);
    return (int)e->code;
}

static const struct sa_command_option table[] = {
    {0, "listen", "ADDRESS",
     "a path: a Unix socket that only its owner may use; or HOST:PORT, where\n"
     "HOST is localhost, 127.0.0.1 or [::1]. Else sallocctl.sock in the\n"
     "folder XDG_RUNTIME_DIR, or /run for root\n",
     offsetof(struct options, listen), sa_take_text},
    {0, "user", "NAME",
     "whose processes TCP clients see, if root serves; a client of the\n"
     "Unix socket sees its own\n",
     offsetof(struct options, user), sa_take_text},
};

const struct sa_command sa_command_serve = {
    .name = "serve",
    .what = "serve profiles and metrics of processes over HTTP",
    .synopsis = "[--listen ADDRESS] [--user NAME]\n",
    .text = "Serves what the other commands read, of all processes on salloc, until SIGTERM:\n"
            "\n"
            "  /                                  a page with the processes\n"
            "  /metrics                           metrics of all, for Prometheus\n"
            "  /metrics/all                       with those of size classes and CPUs\n"
            "  /debug/pprof/heap?pid=N            a heap profile, for 'go tool pprof'\n"
            "  /debug/pprof/allocs?pid=N          what was allocated since the start\n"
            "  /debug/pprof/allocs?pid=N&seconds=30  what is allocated from now on\n"
            "  /flame?pid=N                       the page of a heap profile\n"
            "  /stats?pid=N                       the stats page\n"
            "\n"
            "Nothing changes a process. The header Host must name this machine alone.\n",
    .exit_codes = "0 it was ended, 1 it cannot listen, or was built without libmicrohttpd,\n"
                  "2 usage.\n",
    SA_COMMAND_OPTIONS(table, struct options),
    .first = 0,
    .last = 0,
    .operands = "it takes no arguments",
    .run = run,
};
