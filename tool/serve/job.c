/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs in child processes; see job.h. A child's exit code is that of the commands (error.h). */
#include "tool/serve/job.h"

#include "tool/base/budget.h"
#include "tool/base/child.h"
#include "tool/base/note.h"
#include "tool/base/time.h"
#include "tool/reading/sweep_cache.h"
#include "tool/serve/answer.h"
#include "tool/symbol/debuginfod.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define WAIT_SECONDS   60
#define UNSENT_MAX     (512ull << 20)
#define CLOSED_SECONDS 1  /* from the end of its output to that of a child */
#define SECONDS_MAX    60 /* of a job that only reads */
#define CPU_SECONDS    30
#define MEMORY_MAX     (4ull << 30)  /* that it may map */
#define MEMORY_FEW     (32ull << 20) /* with less, jobs run one by one */
#define ANSWER_MAX     (256ull << 20)
/* Descriptors of a child, besides 0 to 2. */
#define PIPE         3
#define KNOWN        4
#define FOUND        5
#define FIRST_UNUSED 6
#define KNOWN_MAX    (32 << 20) /* bytes of what an answer found */

/* Jobs of a class run and wait apart from the others, so that none waits for a slower one. */
static const struct {
    unsigned running_max, waiting_max;
} classes[SA_JOB_CLASSES] = {
    [SA_JOB_NUMBERS] = {4, 64}, [SA_JOB_PROFILE] = {4, 64}, [SA_JOB_WATCH] = {12, 16}};

_Static_assert(4 + 4 + 12 == SA_JOBS_RUNNING_MAX, "the classes together");

static enum sa_job_class class_of(const struct sa_job *job)
{
    switch (job->request.kind) {
    case SA_SERVE_HEAP:
    case SA_SERVE_FLAME:
        return SA_JOB_PROFILE;
    case SA_SERVE_ALLOCS:
        return job->request.seconds > 0 ? SA_JOB_WATCH : SA_JOB_PROFILE;
    default:
        return SA_JOB_NUMBERS;
    }
}

struct sa_job *sa_job_add(struct sa_jobs *jobs, const struct sa_serve_request *request,
                          const struct sa_serve_user *user, void *owner)
{
    struct sa_job *job = calloc(1, sizeof(*job)), **end = &jobs->first;
    unsigned waiting = 0;

    if (!job)
        return NULL;
    *job = (struct sa_job){.request = *request,
                           .user = *user,
                           .owner = owner,
                           .ends = -1,
                           .file = -1,
                           .found = -1,
                           .deadline = sa_time_seconds() + WAIT_SECONDS};
    for (; *end; end = &(*end)->next)
        waiting += (*end)->state == SA_JOB_WAITS && class_of(*end) == class_of(job);
    if (waiting >= classes[class_of(job)].waiting_max) {
        free(job);
        return NULL;
    }
    *end = job;
    return job;
}

/* --- the child --- */

/* Gives up what a server that is not root's may have: capabilities to read others' processes. */
static bool drop_capabilities(void)
{
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {{0}};

    return syscall(SYS_capset, &header, none) == 0;
}

static bool become(const struct sa_serve_user *user)
{
    if (geteuid() != 0)
        return drop_capabilities();
    return !user->other ||
           (setgroups(0, NULL) == 0 && setresgid(user->gid, user->gid, user->gid) == 0 &&
            setresuid(user->uid, user->uid, user->uid) == 0);
}

/* Gives the child these descriptors, which may have any of its numbers now. */
static bool set_descriptors(const struct sa_job *job, int end, int known)
{
    int nothing = open("/dev/null", O_RDWR);
    int from[FIRST_UNUSED] = {
        nothing, job->file, nothing, [PIPE] = end, [KNOWN] = known, [FOUND] = job->found};

    for (int i = 0; i < FIRST_UNUSED; i++)
        if (from[i] < 0 && i < KNOWN)
            return false;
        else if (from[i] >= 0 && (from[i] = fcntl(from[i], F_DUPFD, FIRST_UNUSED)) < 0)
            return false;
    for (int i = 0; i < FIRST_UNUSED; i++)
        if (from[i] < 0)
            close(i);
        else if (dup2(from[i], i) < 0)
            return false;
#ifdef SYS_close_range
    if (syscall(SYS_close_range, FIRST_UNUSED, ~0u, 0) == 0)
        return true;
#endif
    for (long i = sysconf(_SC_OPEN_MAX) - 1; i >= FIRST_UNUSED; i--)
        close((int)i);
    return true;
}

/* What a child needs. */
struct start {
    const struct sa_job *job;
    int known; /* a file with what earlier answers have found; negative: none */
};

static bool answer(void *arg, int end)
{
    const struct sa_job *job = ((const struct start *)arg)->job;
    int known = ((const struct start *)arg)->known;
    struct sa_error e = {SA_EXIT_DONE, ""};
    sigset_t none;

    sigemptyset(&none);
    setpgid(0, 0);
    signal(SIGTERM, SIG_DFL);
    signal(SIGINT, SIG_DFL);
    signal(SIGXFSZ, SIG_IGN);
    sigprocmask(SIG_SETMASK, &none, NULL);
    sa_budget_begin(job->memory / 4 * 3);
    sa_debuginfod_begin_command();
    sa_notes_begin();
    if (!set_descriptors(job, end, known) || !become(&job->user))
        _exit(SA_EXIT_FAILED);
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* a change of the user would undo it */
    if (!sa_serve_answer(&job->request, known < 0 ? -1 : KNOWN, job->found < 0 ? -1 : FOUND, &e) &&
        ftruncate(1, 0) == 0 && lseek(1, 0, SEEK_SET) == 0)
        dprintf(1, "%s\n", e.text);
    _exit((int)e.code);
}

/* --- the server --- */

static bool is_about_all(const struct sa_serve_request *request)
{
    return request->kind == SA_SERVE_METRICS || request->kind == SA_SERVE_ALL;
}

/* Where it is kept what answers like that of the job have found; or NULL. */
static struct sa_jobs_known *find_known(struct sa_jobs *jobs, const struct sa_job *job)
{
    for (size_t i = 0; i < SA_JOBS_KNOWN_MAX; i++) {
        struct sa_jobs_known *known = &jobs->known[i];

        if (known->time > 0 && known->request.kind == job->request.kind &&
            known->request.openmetrics == job->request.openmetrics &&
            known->user.other == job->user.other && known->user.uid == job->user.uid &&
            known->user.gid == job->user.gid)
            return known;
    }
    return NULL;
}

/* Keeps what the job has found in place of what was known. */
static void keep_known(struct sa_jobs *jobs, struct sa_job *job)
{
    struct sa_jobs_known *known = find_known(jobs, job);
    struct stat s;

    /* An empty one says that nothing has changed. */
    if (fstat(job->found, &s) != 0 || s.st_size == 0 || s.st_size > KNOWN_MAX)
        return;
    if (!known) { /* in place of the oldest */
        known = &jobs->known[0];
        for (size_t i = 1; i < SA_JOBS_KNOWN_MAX; i++)
            if (jobs->known[i].time < known->time)
                known = &jobs->known[i];
    }
    if (known->time > 0)
        close(known->file);
    *known = (struct sa_jobs_known){job->request, job->user, job->found, sa_time_seconds()};
    job->found = -1;
}

static void end_run(struct sa_jobs *jobs, struct sa_job *job, unsigned status)
{
    struct stat s;

    close(job->ends);
    job->ends = -1;
    jobs->running[class_of(job)]--;
    if (fstat(job->file, &s) == 0)
        job->bytes = (uint64_t)s.st_size;
    jobs->unsent += job->bytes;
    if (status == 200 && job->found >= 0)
        keep_known(jobs, job);
    if (job->found >= 0)
        close(job->found);
    job->found = -1;
    job->status = status;
    job->state = SA_JOB_DONE;
}

/*
 * Memory for another child and its answer: half of what the others leave of the server's budget, so
 * that all of them together stay within it. Answers are in memory until they are sent. Where that
 * is little, one job of each class runs at a time. 0: the job waits.
 */
static uint64_t share(const struct sa_jobs *jobs, enum sa_job_class class)
{
    uint64_t left = sa_budget_quarter(), taken = jobs->unsent;

    for (const struct sa_job *job = jobs->first; job; job = job->next)
        taken += job->state == SA_JOB_RUNS ? job->memory : 0;
    left = left == UINT64_MAX ? left : left > taken ? left - taken : 0;
    if (left / 2 >= MEMORY_FEW)
        return left / 2;
    if (jobs->running[class])
        return 0;
    return class == SA_JOB_NUMBERS ? left : left / 2;
}

static bool start(struct sa_jobs *jobs, struct sa_job *job)
{
    const struct sa_jobs_known *known = find_known(jobs, job);
    struct start start = {job, known ? known->file : -1};
    struct sa_child_task task = {
        .run = answer,
        .arg = &start,
        .cpu_seconds = CPU_SECONDS,
        .memory = MEMORY_MAX,
        .file = job->memory / 4 < ANSWER_MAX ? job->memory / 4 : ANSWER_MAX,
    };
    struct sa_child child;

    if (is_about_all(&job->request))
        job->found = memfd_create("known", MFD_CLOEXEC);
    job->file = memfd_create("answer", MFD_CLOEXEC);
    if (job->file < 0 || sa_child_start(&task, &child) != 0)
        return false;
    job->child = child.pid;
    setpgid(job->child, job->child); /* whoever comes first */
    job->ends = child.fd;
    job->deadline = sa_time_seconds() + SECONDS_MAX + job->request.seconds;
    job->state = SA_JOB_RUNS;
    jobs->running[class_of(job)]++;
    return true;
}

/* Waits for children that were killed, as far as they have ended. */
static void bury(struct sa_jobs *jobs)
{
    for (size_t i = 0; i < SA_JOBS_RUNNING_MAX; i++)
        if (jobs->dead[i] && waitpid(jobs->dead[i], NULL, WNOHANG) != 0)
            jobs->dead[i] = 0;
}

/* Kills a child and what it has started. It may take its time to end, in the kernel. */
static void kill_child(struct sa_jobs *jobs, const struct sa_job *job)
{
    size_t free_place = SA_JOBS_RUNNING_MAX;

    kill(-job->child, SIGKILL);
    kill(job->child, SIGKILL);
    for (size_t i = 0; i < SA_JOBS_RUNNING_MAX; i++)
        if (!jobs->dead[i])
            free_place = i;
    if (free_place < SA_JOBS_RUNNING_MAX)
        jobs->dead[free_place] = job->child;
    bury(jobs);
}

/* Whether a job may start; sets its memory. Answers that nobody fetches, and children that do not
 * end, hold up their like; those of numbers are small. */
static bool may_start(const struct sa_jobs *jobs, struct sa_job *job)
{
    enum sa_job_class class = class_of(job);
    unsigned dead = 0;

    for (size_t i = 0; i < SA_JOBS_RUNNING_MAX; i++)
        dead += jobs->dead[i] != 0;
    if (jobs->running[class] >= classes[class].running_max)
        return false;
    if (class == SA_JOB_NUMBERS ? dead >= SA_JOBS_RUNNING_MAX
                                : jobs->unsent >= UNSENT_MAX || dead >= SA_JOBS_RUNNING_MAX / 2)
        return false;
    job->memory = share(jobs, class);
    return job->memory > 0;
}

static void give_up(struct sa_job *job)
{
    job->status = 503;
    job->state = SA_JOB_DONE;
}

void sa_jobs_run(struct sa_jobs *jobs)
{
    double now = sa_time_seconds();

    bury(jobs);
    for (size_t i = 0; i < SA_JOBS_KNOWN_MAX; i++)
        if (jobs->known[i].time > 0 && now > jobs->known[i].time + SA_SWEEP_CACHE_SECONDS) {
            close(jobs->known[i].file);
            jobs->known[i].time = 0;
        }
    for (struct sa_job *job = jobs->first; job; job = job->next) {
        if (job->state == SA_JOB_RUNS && now > job->deadline) {
            kill_child(jobs, job);
            end_run(jobs, job, 504);
        }
        if (job->state != SA_JOB_WAITS)
            continue;
        if (now > job->deadline || (may_start(jobs, job) && !start(jobs, job)))
            give_up(job);
    }
}

size_t sa_jobs_poll(const struct sa_jobs *jobs, struct pollfd *ret)
{
    size_t count = 0;

    for (const struct sa_job *job = jobs->first; job && count < SA_JOBS_RUNNING_MAX;
         job = job->next)
        if (job->state == SA_JOB_RUNS)
            ret[count++] = (struct pollfd){.fd = job->ends, .events = POLLIN};
    return count;
}

static unsigned status_of(int wait_status)
{
    switch (WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : -1) {
    case SA_EXIT_DONE:
        return 200;
    case SA_EXIT_NONE:
    case SA_EXIT_NOT_ON_IT:
        return 404;
    case SA_EXIT_REFUSED:
        return 403;
    case SA_EXIT_VERSION:
        return 501;
    case SA_EXIT_DAMAGED:
        return 502;
    default:
        return 500;
    }
}

/* Whether all of the child's ends of the pipe are closed: it, and what it has started, has ended.
 */
static bool has_ended(const struct sa_job *job)
{
    struct pollfd end = {.fd = job->ends, .events = POLLIN};

    return poll(&end, 1, 0) > 0;
}

struct sa_job *sa_jobs_done(struct sa_jobs *jobs)
{
    for (struct sa_job *job = jobs->first; job; job = job->next) {
        int status = 0;

        if (job->state == SA_JOB_RUNS && has_ended(job)) {
            if (waitpid(job->child, &status, WNOHANG) != 0)
                end_run(jobs, job, status_of(status));
            else if (job->deadline > sa_time_seconds() + CLOSED_SECONDS)
                job->deadline = sa_time_seconds() + CLOSED_SECONDS;
        }
        if (job->state == SA_JOB_DONE && job->owner)
            return job;
    }
    return NULL;
}

void sa_job_free(struct sa_jobs *jobs, struct sa_job *job)
{
    struct sa_job **at = &jobs->first;

    if (job->state == SA_JOB_RUNS) {
        kill_child(jobs, job);
        end_run(jobs, job, 500);
    }
    jobs->unsent -= job->bytes;
    while (*at && *at != job)
        at = &(*at)->next;
    if (*at)
        *at = job->next;
    if (job->file >= 0)
        close(job->file);
    free(job);
}
