/* SPDX-License-Identifier: Apache-2.0 */
/* The server; see server.h. State: the daemon's connections, each with a struct client, and their
 * requests, each with a struct visit. */
#include "tool/serve/server.h"

#include "tool/base/time.h"

#include <errno.h>
#include <microhttpd.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define ANSWER_PIECE    131072 /* bytes of an answer that are sent at a time */
#define CONNECTIONS_MAX 512
#define CONNECTION_RAM  16384
#define IDLE_SECONDS    15  /* without a byte */
#define READ_SECONDS    20  /* until a request is there */
#define WRITE_SECONDS   120 /* until its answer is gone */
#define TICK_MS         500
#define DESCRIPTORS     4096

struct server {
    struct sa_jobs jobs;
    struct client *clients;
    struct sa_serve_user user;
    bool tcp;
};

struct client {
    struct client *next, **link;
    int fd;
    struct ucred peer;   /* of a Unix socket */
    double until;        /* when it has had its time; 0: it waits for a job */
    struct visit *visit; /* that waits for a job, or NULL */
};

struct visit {
    struct MHD_Connection *connection;
    struct sa_job *job;
    bool gone; /* the client has closed the connection while it waited */
};

static volatile sig_atomic_t stopping;

static void stop(int number)
{
    (void)number;
    stopping = 1;
}

/* --- connections --- */

static void connection_changed(void *cls, struct MHD_Connection *connection, void **context,
                               enum MHD_ConnectionNotificationCode what)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    socklen_t bytes = sizeof(struct ucred);
    struct server *s = cls;
    struct client *client = *context;

    if (what == MHD_CONNECTION_NOTIFY_CLOSED) {
        if (!client)
            return;
        *client->link = client->next;
        if (client->next)
            client->next->link = client->link;
        free(client);
        *context = NULL;
        return;
    }
    client = calloc(1, sizeof(*client));
    *context = client;
    if (!client || !info)
        return; /* without one, its requests are refused */
    client->fd = info->connect_fd;
    client->peer.uid = (uid_t)-1;
    if (!s->tcp)
        (void)getsockopt(client->fd, SOL_SOCKET, SO_PEERCRED, &client->peer, &bytes);
    client->until = sa_time_seconds() + READ_SECONDS;
    client->next = s->clients;
    client->link = &s->clients;
    if (client->next)
        client->next->link = &client->next;
    s->clients = client;
}

static struct client *client_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

    return info ? info->socket_context : NULL;
}

/* Ends connections that have had their time. */
static void cut_slow(struct server *s)
{
    double now = sa_time_seconds();

    for (struct client *client = s->clients; client; client = client->next)
        if (client->until > 0 && now > client->until) {
            shutdown(client->fd, SHUT_RDWR);
            client->until = 0;
        }
}

/* Ends the jobs of clients that have gone. While a connection is suspended, libmicrohttpd does not
 * look at it. */
static void end_gone(struct server *s)
{
    struct pollfd fds[CONNECTIONS_MAX];
    struct client *of[CONNECTIONS_MAX];
    nfds_t count = 0;

    for (struct client *c = s->clients; c && count < CONNECTIONS_MAX; c = c->next)
        if (c->visit) {
            of[count] = c;
            fds[count++] = (struct pollfd){.fd = c->fd, .events = POLLRDHUP};
        }
    if (!count || poll(fds, count, 0) <= 0)
        return;
    for (nfds_t i = 0; i < count; i++) {
        struct visit *visit = of[i]->visit;

        if (!(fds[i].revents & (POLLRDHUP | POLLHUP | POLLERR)))
            continue;
        sa_job_free(&s->jobs, visit->job);
        visit->job = NULL;
        visit->gone = true;
        of[i]->visit = NULL;
        MHD_resume_connection(visit->connection);
    }
}

/* --- answers --- */

static enum MHD_Result respond(struct MHD_Connection *connection, unsigned status, const char *type,
                               struct MHD_Response *response)
{
    struct client *client = client_of(connection);
    enum MHD_Result result;

    if (!response)
        return MHD_NO;
    if (client)
        client->until = sa_time_seconds() + WRITE_SECONDS;
    MHD_add_response_header(response, "Content-Type", type);
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    MHD_add_response_header(response, "Cache-Control", "no-store");
    if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
        MHD_add_response_header(response, "Allow", "GET, HEAD");
    result = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result respond_text(struct MHD_Connection *connection, unsigned status,
                                    const char *text)
{
    char line[256];
    size_t n = strlen(text);

    n = n < sizeof(line) - 1 ? n : sizeof(line) - 2;
    memcpy(line, text, n);
    line[n] = '\n';
    return respond(connection, status, "text/plain; charset=utf-8",
                   MHD_create_response_from_buffer(n + 1, line, MHD_RESPMEM_MUST_COPY));
}

/* Reads a piece of an answer. The library's own reader of files takes 4 KiB at a time, and waits
 * for the socket after each. */
static ssize_t read_answer(void *file, uint64_t at, char *ret, size_t most)
{
    ssize_t n = pread((int)(intptr_t)file, ret, most, (off_t)at);

    return n > 0 ? n : MHD_CONTENT_READER_END_WITH_ERROR;
}

static void close_answer(void *file)
{
    close((int)(intptr_t)file);
}

static enum MHD_Result respond_job(struct MHD_Connection *connection, struct sa_job *job)
{
    const char *type = sa_serve_request_type(&job->request);
    struct MHD_Response *response;
    struct stat s;
    int file = job->file;

    if (file < 0 || fstat(file, &s) != 0 || (job->status != 200 && s.st_size == 0))
        return respond_text(connection, job->status == 200 ? 500 : job->status,
                            job->status == 504 ? "it took too long" : "it could not be made");
    if (job->status != 200)
        type = "text/plain; charset=utf-8";
    response = MHD_create_response_from_callback((uint64_t)s.st_size, ANSWER_PIECE, read_answer,
                                                 (void *)(intptr_t)file, close_answer);
    if (response)
        job->file = -1; /* the response's */
    if (response && job->request.kind == SA_SERVE_INDEX)
        MHD_add_response_header(response, "Content-Security-Policy",
                                "default-src 'none'; style-src 'unsafe-inline'");
    if (response && job->status == 200 && job->request.kind == SA_SERVE_HEAP)
        MHD_add_response_header(response, "Content-Disposition",
                                "attachment; filename=\"heap.pb.gz\"");
    if (response && job->status == 200 && job->request.kind == SA_SERVE_ALLOCS)
        MHD_add_response_header(response, "Content-Disposition",
                                "attachment; filename=\"allocs.pb.gz\"");
    return respond(connection, job->status, type, response);
}

/* --- requests --- */

/* With whose rights a client reads; false: it may not. */
static bool user_of(const struct server *s, const struct client *client, struct sa_serve_user *ret)
{
    *ret = s->user;
    if (s->tcp)
        return true;
    if (geteuid() != 0)
        return client->peer.uid == geteuid() || client->peer.uid == 0;
    ret->other = client->peer.uid != 0;
    ret->uid = client->peer.uid;
    ret->gid = client->peer.gid;
    return client->peer.uid != (uid_t)-1;
}

static const char *header(struct MHD_Connection *connection, const char *name)
{
    return MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

#define PARAMETERS_MAX 16

struct parameters {
    struct sa_serve_parameter of[PARAMETERS_MAX];
    size_t count;
};

static enum MHD_Result add_parameter(void *cls, enum MHD_ValueKind kind, const char *name,
                                     const char *value)
{
    struct parameters *parameters = cls;

    (void)kind;
    if (parameters->count < PARAMETERS_MAX)
        parameters->of[parameters->count++] =
            (struct sa_serve_parameter){name ? name : "", value ? value : ""};
    return MHD_YES;
}

struct hosts {
    unsigned count, local;
};

static enum MHD_Result add_host(void *cls, enum MHD_ValueKind kind, const char *name,
                                const char *value)
{
    struct hosts *hosts = cls;

    (void)kind;
    if (strcasecmp(name, "Host") == 0) {
        hosts->count++;
        hosts->local += sa_serve_host_is_local(value);
    }
    return MHD_YES;
}

/* Whether the one header Host names this machine. */
static bool host_is_local(struct MHD_Connection *connection)
{
    struct hosts hosts = {0, 0};

    MHD_get_connection_values(connection, MHD_HEADER_KIND, add_host, &hosts);
    return hosts.count == 1 && hosts.local == 1;
}

/* Whether a browser says that another site has asked for this. Others do not say. */
static bool is_foreign(struct MHD_Connection *connection)
{
    const char *site = header(connection, "Sec-Fetch-Site");

    return site && strcmp(site, "same-origin") != 0 && strcmp(site, "none") != 0;
}

static enum MHD_Result add_accept(void *cls, enum MHD_ValueKind kind, const char *name,
                                  const char *value)
{
    (void)kind;
    if (strcasecmp(name, "Accept") == 0 && value)
        sa_serve_accept_add(cls, value);
    return MHD_YES;
}

/* Checks a request, and has it answered by a job. */
static enum MHD_Result begin(struct server *s, struct MHD_Connection *connection,
                             const char *target, const char *method, struct visit *visit)
{
    struct client *client = client_of(connection);
    const char *url = sa_serve_request_path(target);
    struct parameters parameters = {.count = 0};
    struct sa_serve_accept accept = {0, ""};
    char why[SA_SERVE_WHY];
    struct sa_serve_request request;
    struct sa_serve_user user;
    unsigned status;

    if (!client || !user_of(s, client, &user))
        return respond_text(connection, 403, "this is another user's server");
    if (!host_is_local(connection))
        return respond_text(connection, 403, "the header Host names another machine");
    if (!url)
        return respond_text(connection, 400, "the request is for another machine");
    if (is_foreign(connection) && strcmp(url, "/") != 0)
        return respond_text(connection, 403, "another site may not ask for this");
    if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
        return respond_text(connection, 405, "GET and HEAD only");
    MHD_get_connection_values(connection, MHD_GET_ARGUMENT_KIND, add_parameter, &parameters);
    MHD_get_connection_values(connection, MHD_HEADER_KIND, add_accept, &accept);
    status =
        sa_serve_request_parse(url, parameters.of, parameters.count, accept.list, &request, why);
    if (status != 200)
        return respond_text(connection, status, why);
    visit->job = sa_job_add(&s->jobs, &request, &user, visit);
    if (!visit->job)
        return respond_text(connection, 503, "too many requests wait");
    client->until = 0;
    client->visit = visit;
    MHD_suspend_connection(connection);
    return MHD_YES;
}

static enum MHD_Result handle(void *cls, struct MHD_Connection *connection, const char *url,
                              const char *method, const char *version, const char *upload,
                              size_t *upload_bytes, void **context)
{
    struct visit *visit = *context;

    (void)version;
    (void)upload;
    if (!visit) {
        *context = visit = calloc(1, sizeof(*visit));
        if (!visit)
            return MHD_NO;
        visit->connection = connection;
        return MHD_YES;
    }
    if (*upload_bytes) {
        *upload_bytes = 0;
        return MHD_YES;
    }
    if (visit->gone)
        return MHD_NO;
    if (visit->job)
        return respond_job(connection, visit->job);
    return begin(cls, connection, url, method, visit);
}

static void completed(void *cls, struct MHD_Connection *connection, void **context,
                      enum MHD_RequestTerminationCode how)
{
    struct client *client = client_of(connection);
    struct server *s = cls;
    struct visit *visit = *context;

    (void)how;
    if (client) {
        client->until = sa_time_seconds() + READ_SECONDS;
        client->visit = NULL;
    }
    if (visit && visit->job)
        sa_job_free(&s->jobs, visit->job);
    free(visit);
    *context = NULL;
}

/* Lets the connections of jobs go on that are done; all: of all jobs. True: there was one. */
static bool resume(struct server *s, bool all)
{
    struct sa_job *job;
    struct client *client;
    bool any = false;

    while ((job = sa_jobs_done(&s->jobs))) {
        struct visit *visit = job->owner;

        job->owner = NULL; /* not again */
        client = client_of(visit->connection);
        if (client)
            client->visit = NULL;
        MHD_resume_connection(visit->connection);
        any = true;
    }
    for (job = s->jobs.first; all && job; job = job->next) {
        struct visit *visit = job->owner;

        job->owner = NULL;
        if (visit)
            MHD_resume_connection(visit->connection);
    }
    return any;
}

/* --- the loop --- */

static void wait_for_events(struct server *s, struct MHD_Daemon *daemon, int daemon_fd,
                            const sigset_t *mask)
{
    struct pollfd fds[1 + SA_JOBS_RUNNING_MAX] = {{.fd = daemon_fd, .events = POLLIN}};
    nfds_t count = 1 + sa_jobs_poll(&s->jobs, fds + 1);
    MHD_UNSIGNED_LONG_LONG ms = TICK_MS;
    struct timespec timeout;

    if (MHD_get_timeout(daemon, &ms) != MHD_YES || ms > TICK_MS)
        ms = TICK_MS;
    timeout = (struct timespec){.tv_nsec = (long)ms * 1000000};
    (void)ppoll(fds, count, &timeout, mask);
}

/* SIGTERM and SIGINT end the loop; they come while it waits. */
static void set_signals(sigset_t *before)
{
    struct sigaction action = {.sa_handler = stop};
    sigset_t block;

    sigemptyset(&block);
    sigaddset(&block, SIGTERM);
    sigaddset(&block, SIGINT);
    sigprocmask(SIG_BLOCK, &block, before);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
}

static void loop(struct server *s, struct MHD_Daemon *daemon, const sigset_t *mask)
{
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_EPOLL_FD);
    double next = 0;

    while (!stopping && info) {
        sa_jobs_run(&s->jobs);
        wait_for_events(s, daemon, info->epoll_fd, mask);
        MHD_run(daemon);
        if (resume(s, false))
            MHD_run(daemon); /* it would find them at its next event */
        if (sa_time_seconds() < next)
            continue;
        cut_slow(s);
        end_gone(s);
        next = sa_time_seconds() + TICK_MS * 1e-3;
    }
    resume(s, true);
}

static void raise_descriptors(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < DESCRIPTORS) {
        limit.rlim_cur = limit.rlim_max < DESCRIPTORS ? limit.rlim_max : DESCRIPTORS;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

bool sa_serve(const struct sa_serve_listener *listener, const struct sa_serve_user *user,
              struct sa_error *e)
{
    struct server s = {.user = *user, .tcp = listener->tcp};
    struct MHD_Daemon *daemon;
    sigset_t mask;

    raise_descriptors();
    set_signals(&mask);
    daemon = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, handle, &s,
        MHD_OPTION_LISTEN_SOCKET, listener->fd, MHD_OPTION_NOTIFY_CONNECTION, connection_changed,
        &s, MHD_OPTION_NOTIFY_COMPLETED, completed, &s, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)CONNECTIONS_MAX, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_SECONDS,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_RAM, MHD_OPTION_END);
    if (!daemon) {
        sa_error_set(e, SA_EXIT_FAILED, "libmicrohttpd does not start: %s", strerror(errno));
        return false;
    }
    printf("listening at %s\n", listener->shown);
    fflush(stdout);
    loop(&s, daemon, &mask);
    MHD_stop_daemon(daemon);
    return true;
}
