/* SPDX-License-Identifier: Apache-2.0 */
/* Memory pressure; see pressure.h. A struct sa_pressure belongs to the thread that watches. */
#include "alloc/os/pressure.h"

#include "alloc/base/atomic.h"
#include "alloc/base/layout.h"
#include "alloc/os/clock.h"
#include "alloc/os/sys.h"

#include <fcntl.h>
#include <poll.h>
#include <string.h>

/* Memory pressure means that tasks have waited for memory for WAITED_US in WINDOW_US. Without
 * privileges a window must be a multiple of two seconds. */
#define WAITED_US 150000ull
#define WINDOW_US 2000000ull
#define TRIGGER   "some 150000 2000000"

SA_LAYOUT_USED uint32_t sa_pressure_watched;

/* What reports show. */
SA_LAYOUT = {
    SA_LAYOUT_STATE_ALL("sa_pressure_watched", sa_pressure_watched),
};
SA_LAYOUT_ADDRESS(sa_pressure_watched);

/* Sets the source, also for reports. */
static void set_source(struct sa_pressure *p, enum sa_pressure_source source)
{
    p->source = source;
    sa_store_relaxed(&sa_pressure_watched, source);
}

/* Reads the microseconds in which at least one task waited for memory, since the system's start.
 * False: the file does not have them. */
static bool read_waited(const char *path, uint64_t *ret)
{
    char text[256], *at, *end;

    if (sa_sys_read_file(path, text, sizeof(text)) <= 0)
        return false;
    at = strncmp(text, "some ", 5) == 0 ? strstr(text, " total=") : NULL;
    end = strchr(text, '\n');
    if (!at || (end && at > end))
        return false;
    *ret = 0;
    for (at += 7; *at >= '0' && *at <= '9'; at++)
        *ret = *ret * 10 + (uint64_t)(*at - '0');
    return true;
}

/* Whether the descriptor still is the trigger's file. */
static bool is_open(const struct sa_pressure *p)
{
    uint64_t file[2];

    return sa_sys_file_identity(p->fd, file) == 0 && file[0] == p->file[0] && file[1] == p->file[1];
}

/* Asks the kernel to report pressure on a descriptor. False: it refused. */
static bool set_trigger(struct sa_pressure *p)
{
    p->fd = sa_sys_open(p->path, O_RDWR | O_NONBLOCK, 0);
    if (p->fd < 0)
        return false;
    if (sa_sys_file_identity(p->fd, p->file) == 0 &&
        sa_sys_write(p->fd, TRIGGER, sizeof(TRIGGER)) == (long)sizeof(TRIGGER))
        return true;
    sa_sys_close(p->fd);
    return false;
}

/* Begins to watch the file p->path. False: it does not tell. */
static bool begin_with(struct sa_pressure *p)
{
    if (!read_waited(p->path, &p->waited_us))
        return false;
    p->then_ns = sa_clock_ns();
    set_source(p, set_trigger(p) ? SA_PRESSURE_TRIGGERED : SA_PRESSURE_READ);
    return true;
}

void sa_pressure_begin(struct sa_pressure *p, const char *root)
{
    static const char of_group[] = "/memory.pressure", of_system[] = "/proc/pressure/memory";
    size_t len;

    set_source(p, SA_PRESSURE_NONE);
    if (sa_cgroup_folder(root, p->path)) {
        len = strlen(p->path);
        if (len + sizeof(of_group) <= sizeof(p->path)) {
            memcpy(p->path + len, of_group, sizeof(of_group));
            if (begin_with(p))
                return;
        }
    }
    len = strlen(root);
    if (len + sizeof(of_system) <= sizeof(p->path)) {
        memcpy(p->path, root, len);
        memcpy(p->path + len, of_system, sizeof(of_system));
        begin_with(p);
    }
}

static void rest(unsigned ms)
{
    uint32_t never = 0;

    sa_sys_futex_wait(&never, 0, (int64_t)ms * 1000000);
}

/* Waits for the kernel's report. If the trigger is gone, the file is read from then on. */
static bool wait_for_trigger(struct sa_pressure *p, unsigned ms)
{
    int seen = is_open(p) ? sa_sys_poll(p->fd, POLLPRI, ms) : POLLERR;

    if (seen < 0) /* poll failed at once: the caller must not spin */
        rest(ms);

    if (seen > 0 &&
        seen &
            (POLLERR | POLLNVAL)) { /* the group was removed, or the program has closed the file */
        sa_pressure_end(p);
        set_source(p, SA_PRESSURE_READ);
        return false;
    }
    return seen > 0 && seen & POLLPRI;
}

/* Waits, then compares what tasks have waited meanwhile with the part of a window. */
static bool wait_and_read(struct sa_pressure *p, unsigned ms)
{
    uint64_t waited, now, before = p->waited_us, then = p->then_ns;

    rest(ms);
    if (!read_waited(p->path, &waited))
        return false;
    now = sa_clock_ns();
    p->waited_us = waited;
    p->then_ns = now;
    return waited > before && (waited - before) * WINDOW_US > (now - then) / 1000 * WAITED_US;
}

bool sa_pressure_wait(struct sa_pressure *p, unsigned ms)
{
    return p->source == SA_PRESSURE_TRIGGERED ? wait_for_trigger(p, ms) : wait_and_read(p, ms);
}

void sa_pressure_end(struct sa_pressure *p)
{
    if (p->source == SA_PRESSURE_TRIGGERED && is_open(p))
        sa_sys_close(p->fd);
    set_source(p, SA_PRESSURE_NONE);
}
