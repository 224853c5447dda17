/* SPDX-License-Identifier: Apache-2.0 */
/* Whether descriptor 2 is stderr; see stderr_file.h. */
#include "alloc/output/stderr_file.h"

#include "alloc/base/atomic.h"
#include "alloc/base/attrs.h"
#include "alloc/base/fmt.h"
#include "alloc/base/syscall.h"
#include "alloc/os/filter.h"
#include "alloc/os/sys.h"

#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

static SA_START_DATA struct {
    uint64_t device, inode; /* of descriptor 2 at load */
    bool noted;             /* these are known */
    bool fits;              /* that file is one for people or logs */
    bool socket;            /* it is a socket */
    bool answer;            /* atomic, relaxed: the last answer of sa_stderr_file_may */
} at_load;

/* libc's struct is the kernel's on both architectures. */
SA_START_CODE static bool look(int fd, struct stat *ret)
{
    return sa_syscall(SYS_newfstatat, fd, "", ret, AT_EMPTY_PATH) == 0;
}

/* Whether descriptor 2 is open for appending. */
static bool appends(void)
{
    intptr_t flags = sa_syscall(SYS_fcntl, STDERR_FILENO, F_GETFL);

    return flags >= 0 && flags & O_APPEND;
}

SA_START_CODE bool sa_stderr_file_note(void)
{
    struct termios unused;
    struct stat st;

    if (at_load.noted)
        return false;
    at_load.noted = true;
    if (!look(STDERR_FILENO, &st))
        return false;
    at_load.device = st.st_dev;
    at_load.inode = st.st_ino;
    at_load.fits =
        S_ISREG(st.st_mode) || S_ISFIFO(st.st_mode) ||
        (S_ISCHR(st.st_mode) && sa_syscall(SYS_ioctl, STDERR_FILENO, TCGETS, &unused) == 0);
    at_load.answer = at_load.fits;
    at_load.socket = S_ISSOCK(st.st_mode);
    return at_load.socket;
}

SA_RARE void sa_stderr_file_note_journal(const char *value)
{
    char text[48];
    struct sa_fmt f;

    sa_fmt_init(&f, text, sizeof(text));
    sa_fmt_add(&f, "%zu:%zu", (size_t)at_load.device, (size_t)at_load.inode);
    at_load.fits = at_load.socket && value && strcmp(value, text) == 0;
    at_load.answer = at_load.fits;
}

SA_RARE bool sa_stderr_file_may(bool ends)
{
    struct stat now, in;
    bool may;

    if (!at_load.noted || sa_filtered())
        return !at_load.noted || sa_load_relaxed(&at_load.answer);
    if (!look(STDERR_FILENO, &now))
        now.st_mode = 0;
    may =
        at_load.fits && now.st_mode && now.st_dev == at_load.device && now.st_ino == at_load.inode;
    if (may && at_load.socket)
        may = !(look(STDIN_FILENO, &in) && in.st_dev == now.st_dev && in.st_ino == now.st_ino);
    sa_store_relaxed(&at_load.answer, may);
    return may || (ends && S_ISREG(now.st_mode) && appends());
}
