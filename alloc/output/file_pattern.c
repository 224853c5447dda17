/* SPDX-License-Identifier: Apache-2.0 */
/* Paths made of patterns; see file.h. The only state is the number that %n stands for. */
#include "alloc/base/atomic.h"
#include "alloc/base/fmt.h"
#include "alloc/output/file.h"
#include "alloc/os/own_proc.h"
#include "alloc/os/scratch.h"
#include "alloc/os/sys.h"

#include <errno.h>
#include <string.h>

static uint32_t file_sequence; /* atomic, relaxed: the last number that %n stood for */

int sa_file_check_pattern(const char *pattern)
{
    if (!*pattern)
        return -EINVAL;
    for (; *pattern; pattern++)
        if (*pattern == '%' && (!*++pattern || !strchr("penc%", *pattern)))
            return -EINVAL;
    return 0;
}

bool sa_file_pattern_has_pid(const char *pattern)
{
    for (; *pattern; pattern++)
        if (*pattern == '%' && *++pattern == 'p')
            return true;
    return false;
}

/* Adds the name of the process's executable, without folders. */
static void add_executable(struct sa_fmt *f)
{
    static const char deleted[] = " (deleted)"; /* the kernel adds this once the file is gone */
    char *path = sa_scratch_take();
    long n = path ? sa_own_proc_link("exe", path, SA_FILE_PATH_MAX) : -1;
    size_t tail = sizeof(deleted) - 1;

    if (n < 0) {
        sa_fmt_add(f, "unknown");
        sa_scratch_give(path);
        return;
    }
    if ((size_t)n > tail && strcmp(path + (size_t)n - tail, deleted) == 0)
        path[(size_t)n - tail] = '\0';
    sa_fmt_add(f, "%s", strrchr(path, '/') ? strrchr(path, '/') + 1 : path);
    sa_scratch_give(path);
}

void sa_file_program_name(char *buf, size_t cap)
{
    struct sa_fmt f;

    sa_fmt_init(&f, buf, cap);
    add_executable(&f);
}

/* Makes a path of a pattern. count: %n takes a new number. */
static int expand(const char *pattern, char *buf, size_t cap, bool count)
{
    int failed = sa_file_check_pattern(pattern);
    struct sa_fmt f;

    if (failed)
        return failed;
    sa_fmt_init(&f, buf, cap);
    for (; *pattern; pattern++) {
        if (*pattern != '%')
            sa_fmt_add(&f, "%c", *pattern);
        else if (*++pattern == 'p')
            sa_fmt_add(&f, "%d", sa_sys_pid());
        else if (*pattern == 'c')
            sa_fmt_add(&f, ",");
        else if (*pattern == 'e')
            add_executable(&f);
        else if (*pattern == 'n')
            sa_fmt_add(&f, "%u", sa_add_relaxed(&file_sequence, count) + count);
        else
            sa_fmt_add(&f, "%%");
    }
    return f.truncated ? -ENAMETOOLONG : 0;
}

int sa_file_expand(const char *pattern, char *buf, size_t cap)
{
    return expand(pattern, buf, cap, true);
}

int sa_file_expand_to_try(const char *pattern, char *buf, size_t cap)
{
    return expand(pattern, buf, cap, false);
}
