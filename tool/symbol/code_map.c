/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of generated code; see code_map.h. Lines are taken from the last one to the first, so the
 * first line that has an address names it. Addresses that are named already are skipped by links to
 * the next one without a name, so the time is that of the text, however lines overlap.
 */
#include "tool/symbol/code_map.h"

#include "alloc/base/utf8.h"
#include "tool/base/io.h"
#include "tool/base/time.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MAP_BYTES_MAX (256u << 20)
#define SLACK_NS                                                                                   \
    ((int64_t)5 * 1000 * 1000000) /* of clocks, and from the profile at exit to the last line */

static bool read_text(struct sa_code_map *map, int fd, size_t bytes)
{
    map->text = malloc(bytes + 1);
    while (map->text && map->bytes < bytes) {
        ssize_t n = read(fd, map->text + map->bytes, bytes - map->bytes);

        if (n <= 0)
            break;
        map->bytes += (size_t)n;
    }
    /* The process may be about to write the rest of the last line. */
    while (map->bytes && map->text[map->bytes - 1] != '\n')
        map->bytes--;
    return map->bytes;
}

/* What makes a map that of a process. */
struct owner {
    uid_t uid;              /* a map is this user's, or root's */
    int64_t from_ns, to_ns; /* since 1970: it was last written to between the two */
};

/*
 * Opens a regular file of the folder tmp of a root, which may be that of a container. Neither part
 * of the name may be a link, which would lead out of the container. Nothing else than a regular
 * file is opened: opening a device may do something. -1: there is none.
 */
static int open_map(const char *root, long pid, struct stat *ret)
{
    int top = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC), tmp = -1, file = -1, fd = -1;
    char name[64];

    if (top >= 0)
        tmp = openat(top, "tmp", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    snprintf(name, sizeof(name), "perf-%ld.map", pid);
    if (tmp >= 0)
        file = openat(tmp, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (file >= 0 && fstat(file, ret) == 0 && S_ISREG(ret->st_mode)) {
        snprintf(name, sizeof(name), "/proc/self/fd/%d", file);
        fd = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    }
    if (top >= 0)
        close(top);
    if (tmp >= 0)
        close(tmp);
    if (file >= 0)
        close(file);
    return fd;
}

static bool read_map(struct sa_code_map *map, const char *root, long pid, const struct owner *owner)
{
    struct stat status;
    int fd = open_map(root, pid, &status);
    bool fine;

    memset(map, 0, sizeof(*map));
    if (fd < 0)
        return false;
    fine = (status.st_uid == 0 || status.st_uid == owner->uid) && status.st_size > 0 &&
           status.st_size <= MAP_BYTES_MAX && status.st_mtim.tv_sec <= owner->to_ns / 1000000000 &&
           status.st_mtim.tv_sec >= owner->from_ns / 1000000000 &&
           read_text(map, fd, (size_t)status.st_size);
    close(fd);
    if (!fine)
        sa_code_map_free(map);
    return fine;
}

/* When a process started, since 1970; 0: not known. */
static int64_t started_ns(pid_t pid)
{
    unsigned long long ticks = sa_io_started(pid);
    double seconds = (double)ticks / (double)sysconf(_SC_CLK_TCK);

    return ticks
               ? sa_time_ns(CLOCK_REALTIME) - sa_time_ns(CLOCK_BOOTTIME) + (int64_t)(seconds * 1e9)
               : 0;
}

bool sa_code_map_of_process(struct sa_code_map *map, pid_t pid)
{
    char path[SA_PROC_PATH];
    struct stat status;
    long own;

    memset(map, 0, sizeof(*map));
    snprintf(path, sizeof(path), "/proc/%d", (int)pid);
    if (stat(path, &status) != 0)
        return false;
    own = sa_io_own_pid(pid);
    return read_map(map, sa_io_proc_path(path, pid, "root"), own ? own : pid,
                    &(struct owner){status.st_uid, started_ns(pid) - SLACK_NS, INT64_MAX});
}

bool sa_code_map_of_past(struct sa_code_map *map, long pid, int64_t time_ns)
{
    memset(map, 0, sizeof(*map));
    return pid > 0 && time_ns > 0 && time_ns < INT64_MAX - SLACK_NS &&
           read_map(map, "/", pid, &(struct owner){geteuid(), 0, time_ns + SLACK_NS});
}

/* Reads a hexadecimal number, and moves on to what follows. False: there is none. */
static bool read_hex(const char **at, const char *end, uint64_t *ret)
{
    const char *from;

    while (*at < end && **at == ' ')
        ++*at;
    if (end - *at > 2 && (*at)[0] == '0' && ((*at)[1] | 0x20) == 'x')
        *at += 2;
    *ret = 0;
    for (from = *at; *at < end && *at - from < 16; ++*at) {
        char c = **at, small = (char)(c | 0x20);

        if (c >= '0' && c <= '9')
            *ret = *ret << 4 | (uint64_t)(c - '0');
        else if (small >= 'a' && small <= 'f')
            *ret = *ret << 4 | (uint64_t)(small - 'a' + 10);
        else
            break;
    }
    return *at > from && *at < end && **at == ' ';
}

/* A line "START BYTES NAME". */
static bool read_line(const char *at, const char *end, struct sa_code *ret, uint64_t *bytes)
{
    if (!read_hex(&at, end, &ret->address) || !read_hex(&at, end, bytes))
        return false;
    while (at < end && *at == ' ')
        at++;
    while (end > at && (end[-1] == '\r' || end[-1] == ' '))
        end--;
    ret->name = at;
    ret->bytes = (size_t)(end - at) < SA_CODE_NAME_MAX ? (size_t)(end - at) : SA_CODE_NAME_MAX;
    return at < end;
}

/* The first code at an address or above. */
static size_t first_from(const struct sa_code *codes, size_t count, uint64_t address)
{
    size_t low = 0, high = count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (codes[middle].address < address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The first code from i on that has no name; the links on the way get shorter. */
static size_t nameless(size_t *next, size_t i)
{
    while (next[i] != i)
        i = next[i] = next[next[i]];
    return i;
}

bool sa_code_map_find(const struct sa_code_map *map, struct sa_code *codes, size_t count)
{
    size_t *next = malloc((count + 1) * sizeof(*next));
    const char *end = map->text + map->bytes, *line;

    if (!next)
        return false;
    for (size_t i = 0; i <= count; i++)
        next[i] = i;
    for (size_t i = 0; i < count; i++)
        codes[i].name = NULL;
    for (; count && end > map->text; end = line) {
        struct sa_code found;
        uint64_t bytes;

        end--; /* the end of the line */
        for (line = end; line > map->text && line[-1] != '\n';)
            line--;
        if (!read_line(line, end, &found, &bytes))
            continue;
        for (size_t i = nameless(next, first_from(codes, count, found.address));
             i < count && codes[i].address - found.address < bytes; i = nameless(next, i)) {
            codes[i].name = found.name;
            codes[i].bytes = found.bytes;
            next[i] = i + 1;
        }
    }
    free(next);
    for (size_t i = 0; i < count; i++)
        if (codes[i].name) /* once more does not change it */
            sa_utf8_clean(map->text + (codes[i].name - map->text), codes[i].bytes);
    return true;
}

void sa_code_map_symbols(const struct sa_code_map *map, struct sa_symbol *symbols, size_t count,
                         struct sa_buffer *names)
{
    struct sa_code *codes = map->bytes ? calloc(count, sizeof(*codes)) : NULL;

    for (size_t i = 0; codes && i < count; i++)
        codes[i].address = symbols[i].address;
    if (codes && sa_code_map_find(map, codes, count))
        for (size_t i = 0; i < count; i++) {
            char *copy = NULL;

            if (i && codes[i].name == codes[i - 1].name)
                symbols[i].name = symbols[i - 1].name;
            else if (codes[i].name)
                copy = sa_buffer_add(names, codes[i].bytes + 1);
            if (copy) {
                memcpy(copy, codes[i].name, codes[i].bytes);
                symbols[i].name = (size_t)(copy - names->data);
            }
        }
    free(codes);
}

void sa_code_map_free(struct sa_code_map *map)
{
    free(map->text);
    memset(map, 0, sizeof(*map));
}
