/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory pressure: a trigger where the kernel takes it, else by reading; files that are missing,
 * cut or make no sense; a descriptor that the program has closed, or that is another file by now,
 * is neither waited for nor closed.
 *
 * The system calls are the test's: the program is linked with --wrap for them.
 */
#include "alloc/os/pressure.h"

#include "alloc/os/sys.h"
#include "test/support/cmocka.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <time.h>

static struct {
    const char *text; /* of /proc/pressure/memory; NULL: there is none */
    const char *group_text;
    bool takes_triggers;
    int events; /* what poll finds */
    uint64_t inode;
    int opened, closed;
    bool trigger_of_group;
    uint64_t now_ns;
    unsigned polled_ms;
} fake;

#define GROUP "/sys/fs/cgroup/g/memory.pressure"

long __wrap_sa_sys_read_file(const char *path, char *buf, size_t cap);
int __wrap_sa_sys_open(const char *path, int flags, int mode);
long __wrap_sa_sys_read(int fd, void *buf, size_t bytes);
int __wrap_sa_sys_close(int fd);
long __wrap_sa_sys_write(int fd, const void *buf, size_t bytes);
int __wrap_sa_sys_poll(int fd, int events, unsigned ms);
int __wrap_sa_sys_file_identity(int fd, uint64_t ret[2]);
void __wrap_sa_sys_futex_wait(uint32_t *word, uint32_t expect, int64_t ns);
uint64_t __wrap_sa_vdso_clock_ns(clockid_t clock);

static const char *file_text(const char *path)
{
    if (strcmp(path, "/proc/pressure/memory") == 0)
        return fake.text;
    if (strcmp(path, GROUP) == 0)
        return fake.group_text;
    if (strcmp(path, "/proc/self/cgroup") == 0)
        return fake.group_text ? "0::/g\n" : "";
    if (strcmp(path, "/proc/self/mountinfo") == 0)
        return "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
    return NULL;
}

long __wrap_sa_sys_read_file(const char *path, char *buf, size_t cap)
{
    const char *text = file_text(path);

    if (!text)
        return -ENOENT;
    assert_true(strlen(text) < cap);
    strcpy(buf, text);
    return (long)strlen(text);
}

/* Files that are read line by line are 100 and 101, triggers 7. */
static size_t at;

int __wrap_sa_sys_open(const char *path, int flags, int mode)
{
    (void)flags;
    (void)mode;
    at = 0;
    if (strcmp(path, "/proc/self/cgroup") == 0)
        return 100;
    if (strcmp(path, "/proc/self/mountinfo") == 0)
        return 101;
    fake.trigger_of_group = strcmp(path, GROUP) == 0;
    fake.opened++;
    return fake.takes_triggers ? 7 : -EACCES;
}

long __wrap_sa_sys_read(int fd, void *buf, size_t bytes)
{
    const char *text = file_text(fd == 100 ? "/proc/self/cgroup" : "/proc/self/mountinfo");
    size_t n = strlen(text) - at;

    n = n < bytes ? n : bytes;
    memcpy(buf, text + at, n);
    at += n;
    return (long)n;
}

int __wrap_sa_sys_close(int fd)
{
    if (fd < 100) {
        assert_int_equal(fd, 7);
        fake.closed++;
    }
    return 0;
}

long __wrap_sa_sys_write(int fd, const void *buf, size_t bytes)
{
    assert_int_equal(fd, 7);
    assert_string_equal(buf, "some 150000 2000000");
    return (long)bytes;
}

int __wrap_sa_sys_poll(int fd, int events, unsigned ms)
{
    assert_int_equal(fd, 7);
    assert_int_equal(events, POLLPRI);
    fake.polled_ms = ms;
    return fake.events;
}

int __wrap_sa_sys_file_identity(int fd, uint64_t ret[2])
{
    assert_int_equal(fd, 7);
    if (!fake.inode)
        return -EBADF;
    ret[0] = 1;
    ret[1] = fake.inode;
    return 0;
}

void __wrap_sa_sys_futex_wait(uint32_t *word, uint32_t expect, int64_t ns)
{
    (void)word;
    (void)expect;
    fake.now_ns += (uint64_t)ns;
}

uint64_t __wrap_sa_vdso_clock_ns(clockid_t clock)
{
    (void)clock;
    return fake.now_ns;
}

#define TEXT(total)                                                                                \
    "some avg10=1.00 avg60=0.00 avg300=0.00 total=" #total                                         \
    "\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=99999999\n"

static int set_up(void **state)
{
    (void)state;
    memset(&fake, 0, sizeof(fake));
    fake.text = TEXT(1000000);
    fake.takes_triggers = true;
    fake.inode = 5;
    fake.now_ns = 1000000000;
    return 0;
}

static void test_pressure_by_a_trigger(void **state)
{
    struct sa_pressure p = {0};
    uint64_t then;

    (void)state;
    sa_pressure_begin(&p, "");
    assert_int_equal(p.source, SA_PRESSURE_TRIGGERED);
    assert_int_equal(sa_pressure_watched, SA_PRESSURE_TRIGGERED);
    assert_false(fake.trigger_of_group);
    assert_false(sa_pressure_wait(&p, 1234));
    assert_int_equal(fake.polled_ms, 1234);
    fake.events = POLLPRI;
    assert_true(sa_pressure_wait(&p, 10));
    fake.events = -EINTR;
    then = fake.now_ns;
    assert_false(sa_pressure_wait(&p, 10));
    assert_int_equal(fake.now_ns - then, 10000000); /* whoever calls it again and again rests */
    sa_pressure_end(&p);
    assert_int_equal(fake.closed, 1);
    sa_pressure_end(&p);
    assert_int_equal(fake.closed, 1);
    assert_int_equal(sa_pressure_watched, SA_PRESSURE_NONE);
}

static void test_pressure_of_the_group_comes_first(void **state)
{
    struct sa_pressure p = {0};

    (void)state;
    fake.group_text = TEXT(5);
    sa_pressure_begin(&p, "");
    assert_int_equal(p.source, SA_PRESSURE_TRIGGERED);
    assert_true(fake.trigger_of_group);
    assert_string_equal(p.path, GROUP);
}

static void test_pressure_by_reading(void **state)
{
    struct sa_pressure p = {0};

    (void)state;
    fake.takes_triggers = false;
    sa_pressure_begin(&p, "");
    assert_int_equal(p.source, SA_PRESSURE_READ);
    assert_false(sa_pressure_wait(&p, 2000)); /* nothing waited */
    fake.text = TEXT(1100000);
    assert_false(sa_pressure_wait(&p, 2000)); /* 100 ms of 2 s */
    fake.text = TEXT(1300000);
    assert_true(sa_pressure_wait(&p, 2000)); /* 200 ms */
    assert_false(sa_pressure_wait(&p, 2000));
    fake.text = TEXT(1400000);
    assert_true(sa_pressure_wait(&p, 1000)); /* 100 ms of one */
    fake.text = TEXT(0);                     /* another group's, or nonsense */
    assert_false(sa_pressure_wait(&p, 1000));
    fake.text = NULL;
    assert_false(sa_pressure_wait(&p, 1000));
    sa_pressure_end(&p);
    assert_int_equal(fake.closed, 0);
}

static void test_pressure_files_that_make_no_sense(void **state)
{
    static const char *const texts[] = {
        NULL,
        "",
        "\n",
        "total=5\n",
        "some avg10=0.00\n",
        "full avg10=1.00 total=5\n",
        "some avg10=1.00\nfull total=5\n",
    };

    (void)state;
    for (size_t i = 0; i < TEST_COUNT(texts); i++) {
        struct sa_pressure p = {0};
        uint64_t then = fake.now_ns;

        fake.text = texts[i];
        sa_pressure_begin(&p, "");
        assert_int_equal(p.source, SA_PRESSURE_NONE);
        assert_false(sa_pressure_wait(&p, 500));
        assert_int_equal(fake.now_ns - then, 500000000); /* but it waits */
        sa_pressure_end(&p);
    }
    assert_int_equal(fake.opened, 0);
}

static void test_pressure_file_is_closed_by_others(void **state)
{
    struct sa_pressure p = {0};

    (void)state;
    sa_pressure_begin(&p, "");
    fake.inode = 6; /* the program has opened a file of its own in its place */
    fake.events = POLLPRI;
    assert_false(sa_pressure_wait(&p, 100));
    assert_int_equal(fake.polled_ms, 0);
    assert_int_equal(p.source, SA_PRESSURE_READ);
    assert_int_equal(fake.closed, 0);
    fake.inode = 5;
    sa_pressure_begin(&p, "");
    fake.inode = 0;
    sa_pressure_end(&p);
    assert_int_equal(fake.closed, 0);
    fake.inode = 5;
    sa_pressure_begin(&p, "");
    fake.events = POLLERR | POLLPRI; /* the group was removed */
    assert_false(sa_pressure_wait(&p, 100));
    assert_int_equal(fake.closed, 1);
    assert_int_equal(p.source, SA_PRESSURE_READ);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_pressure_by_a_trigger, set_up),
        cmocka_unit_test_setup(test_pressure_of_the_group_comes_first, set_up),
        cmocka_unit_test_setup(test_pressure_by_reading, set_up),
        cmocka_unit_test_setup(test_pressure_files_that_make_no_sense, set_up),
        cmocka_unit_test_setup(test_pressure_file_is_closed_by_others, set_up),
    };

    return cmocka_run_group_tests_name("pressure", tests, NULL, NULL);
}
