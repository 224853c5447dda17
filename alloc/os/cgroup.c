/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Control groups; see cgroup.h. /proc/self/cgroup names the group within its hierarchy, /proc/self/mountinfo tells where
 * a hierarchy, or the part of it below some group, is mounted. Where the two do not fit (another name space),
 * the mount point is the nearest group that can be seen.
 */
#include "alloc/os/cgroup.h"

#include "alloc/base/bits.h"
#include "alloc/os/sys.h"

#include <fcntl.h>
#include <string.h>

#define LIMIT_LEAST (1ull << 20)
#define LIMIT_MOST  (1ull << 62)
#define LINE_MAX    4096

/* The words of a line of mountinfo up to the optional ones. */
enum { MOUNT_ROOT = 3, MOUNT_POINT = 4, MOUNT_WORDS = 6 };

struct lines {
    int fd;
    size_t len; /* of what has been read */
    char text[LINE_MAX];
};

static bool path_join(char *ret, size_t cap, const char *a, const char *b)
{
    size_t la = strlen(a), lb = strlen(b);

    if (la + lb >= cap)
        return false;
    memmove(ret, a, la);
    memcpy(ret + la, b, lb + 1);
    return true;
}

static bool lines_open(struct lines *l, const char *root, const char *path)
{
    char full[SA_CGROUP_PATH_MAX];

    l->len = 0;
    l->fd = path_join(full, sizeof(full), root, path) ? sa_sys_open(full, O_RDONLY, 0) : -1;
    return l->fd >= 0;
}

/* The next line, terminated, in ret; one that is too long is left out. False at the end, with the file closed. */
static bool lines_next(struct lines *l, char ret[LINE_MAX])
{
    bool too_long = false;

    for (;;) {
        char *end = memchr(l->text, '\n', l->len);
        size_t n = end ? (size_t)(end - l->text) : 0;
        long got;

        if (end) {
            memcpy(ret, l->text, n);
            ret[n] = '\0';
            l->len -= n + 1;
            memmove(l->text, end + 1, l->len);
            if (!too_long)
                return true;
            too_long = false;
            continue;
        }
        if (l->len == LINE_MAX) {
            too_long = true;
            l->len = 0;
        }
        got = sa_sys_read(l->fd, l->text + l->len, LINE_MAX - l->len);
        if (got <= 0) {
            sa_sys_close(l->fd);
            return false;
        }
        l->len += (size_t)got;
    }
}

/* Whether a list of words with commas between them has the word. */
static bool list_has(const char *list, const char *word)
{
    size_t len = strlen(word), n;

    for (; *list; list += n + (list[n] == ',')) {
        n = strcspn(list, ",");
        if (n == len && memcmp(list, word, n) == 0)
            return true;
    }
    return false;
}

/* The process's group in its hierarchy, as /proc says. */
static bool own_group(const char *root, bool v2, char ret[SA_CGROUP_PATH_MAX])
{
    struct lines lines;
    char line[LINE_MAX];
    bool found = false;

    if (!lines_open(&lines, root, "/proc/self/cgroup"))
        return false;
    while (lines_next(&lines, line)) { /* 0::/path or 4:cpu,memory:/path */
        char *list = strchr(line, ':'), *path = list ? strchr(list + 1, ':') : NULL;

        if (!path || found)
            continue;
        *list++ = *path++ = '\0';
        if (v2 ? strcmp(line, "0") == 0 && !*list : list_has(list, "memory"))
            found = path_join(ret, SA_CGROUP_PATH_MAX, path, "");
    }
    return found;
}

/* Cuts off the next word; NULL: there is none. */
static char *next_word(char **line)
{
    char *word = *line;
    size_t n = strcspn(word, " ");

    if (!n)
        return NULL;
    *line += n + (word[n] == ' ');
    word[n] = '\0';
    return word;
}

/* Blanks and backslashes in paths are written as \040 and the like. */
static void unescape(char *s)
{
    char *to = s;

    for (; *s; s++, to++) {
        *to = *s;
        if (*s == '\\' && s[1] >= '0' && s[1] <= '3' && s[2] >= '0' && s[2] <= '7' && s[3] >= '0' &&
            s[3] <= '7') {
            *to = (char)((s[1] - '0') << 6 | (s[2] - '0') << 3 | (s[3] - '0'));
            s += 3;
        }
    }
    *to = '\0';
}

/* A line of mountinfo: whether it mounts the hierarchy, from which group on, and where. */
static bool parse_mount(char *line, bool v2, char **ret_root, char **ret_point)
{
    char *word = NULL, *type, *options;

    for (int i = 0; i < MOUNT_WORDS; i++) {
        word = next_word(&line);
        if (!word)
            return false;
        if (i == MOUNT_ROOT)
            *ret_root = word;
        if (i == MOUNT_POINT)
            *ret_point = word;
    }
    while (word && strcmp(word, "-") != 0)
        word = next_word(&line);
    type = next_word(&line);
    next_word(&line);
    options = next_word(&line);
    if (!type || !options ||
        (v2 ? strcmp(type, "cgroup2") != 0
            : strcmp(type, "cgroup") != 0 || !list_has(options, "memory")))
        return false;
    unescape(*ret_root);
    unescape(*ret_point);
    return true;
}

/* What of a path lies below another; NULL if it does not lie there. */
static const char *below(const char *path, const char *top)
{
    size_t len = strcmp(top, "/") == 0 ? 0 : strlen(top);

    if (strncmp(path, top, len) != 0 || (path[len] && path[len] != '/') || strstr(path, "/.."))
        return NULL;
    return strcmp(path + len, "/") == 0 ? "" : path + len;
}

/* The group's folder, and how much of its path is the mount point. */
static bool find_folder(const char *root, bool v2, char ret[SA_CGROUP_PATH_MAX], size_t *ret_point)
{
    char group[SA_CGROUP_PATH_MAX], line[LINE_MAX], *top = group, *point = group;
    struct lines lines;
    bool found = false, exact = false;

    if (!own_group(root, v2, group) || !lines_open(&lines, root, "/proc/self/mountinfo"))
        return false;
    while (lines_next(&lines, line)) {
        const char *rest;

        if (exact || !parse_mount(line, v2, &top, &point))
            continue;
        rest = below(group, top);
        if (found && !rest)
            continue;
        found = path_join(ret, SA_CGROUP_PATH_MAX, root, point);
        *ret_point = strlen(ret);
        exact = found && rest && path_join(ret, SA_CGROUP_PATH_MAX, ret, rest);
    }
    return found;
}

static uint64_t read_limit(const char *folder, const char *name)
{
    char path[SA_CGROUP_PATH_MAX], text[64];
    uint64_t v = 0;
    size_t i = 0;

    if (!path_join(path, sizeof(path), folder, name) ||
        sa_sys_read_file(path, text, sizeof(text)) <= 0)
        return SA_CGROUP_NONE;
    for (; text[i] >= '0' && text[i] <= '9' && v < LIMIT_MOST; i++)
        v = v * 10 + (uint64_t)(text[i] - '0');
    if (i == 0 || (text[i] && text[i] != '\n') || v < LIMIT_LEAST || v >= LIMIT_MOST)
        return SA_CGROUP_NONE;
    return v;
}

static void read_hierarchy(const char *root, bool v2, struct sa_cgroup_limits *ret)
{
    char folder[SA_CGROUP_PATH_MAX];
    size_t point, len;

    if (!find_folder(root, v2, folder, &point))
        return;
    for (;;) {
        ret->max =
            sa_min(ret->max, read_limit(folder, v2 ? "/memory.max" : "/memory.limit_in_bytes"));
        if (v2)
            ret->high = sa_min(ret->high, read_limit(folder, "/memory.high"));
        len = strlen(folder);
        while (len > point && folder[len - 1] != '/')
            len--;
        if (len <= point)
            break;
        folder[len - 1] = '\0'; /* the group above */
    }
}

void sa_cgroup_read_limits(const char *root, struct sa_cgroup_limits *ret)
{
    *ret = (struct sa_cgroup_limits){SA_CGROUP_NONE, SA_CGROUP_NONE};
    read_hierarchy(root, true, ret);
    read_hierarchy(root, false, ret);
}

bool sa_cgroup_folder(const char *root, char ret[SA_CGROUP_PATH_MAX])
{
    size_t point;

    return find_folder(root, true, ret, &point);
}
