/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads control groups; see cgroup.h. All state belongs to the caller.
 *
 * /proc/self/cgroup names the process's group within its hierarchy. /proc/self/mountinfo names
 * where a hierarchy, or the part of it below some group, is mounted. If the two do not fit
 * together, as in another name space, the mount point is the nearest group that the process can
 * see.
 */
#include "alloc/os/cgroup.h"

#include "alloc/base/bits.h"
#include "alloc/os/own_proc.h"
#include "alloc/os/scratch.h"
#include "alloc/os/sys.h"

#include <fcntl.h>
#include <string.h>

/* Bounds of a limit that makes sense, in bytes. */
#define LIMIT_MIN (1ull << 20)
#define LIMIT_MAX (1ull << 62)

/* Positions of words in a line of mountinfo, and the number of words before the optional ones. */
enum { MOUNT_ROOT = 3, MOUNT_POINT = 4, MOUNT_WORDS = 6 };

/* Concatenates two strings; ret may be a. False: too long. */
static bool path_join(char *ret, size_t cap, const char *a, const char *b)
{
    size_t la = strlen(a), lb = strlen(b);

    if (la + lb >= cap)
        return false;
    memmove(ret, a, la);
    memcpy(ret + la, b, lb + 1);
    return true;
}

/* Opens a file to be read by lines. False: it cannot be opened. */
static bool lines_open(struct sa_cgroup_lines *l, const char *root, const char *path)
{
    l->len = 0;
    l->fd =
        path_join(l->path, sizeof(l->path), root, path) ? sa_sys_open(l->path, O_RDONLY, 0) : -1;
    return l->fd >= 0;
}

/* The same of a file of the process in /proc. */
static bool own_open(struct sa_cgroup_lines *l, const char *root, const char *name)
{
    return path_join(l->line, sizeof(l->line), sa_own_proc(), name) && lines_open(l, root, l->line);
}

/* Reads the next line into l->line, with a zero at its end. Skips lines longer than
 * SA_CGROUP_LINE_MAX. False: the end; the file is closed then. */
static bool lines_next(struct sa_cgroup_lines *l)
{
    bool too_long = false;

    for (;;) {
        char *end = memchr(l->text, '\n', l->len);
        size_t n = end ? (size_t)(end - l->text) : 0;
        long got;

        if (end) {
            memcpy(l->line, l->text, n);
            l->line[n] = '\0';
            l->len -= n + 1;
            memmove(l->text, end + 1, l->len);
            if (!too_long)
                return true;
            too_long = false;
            continue;
        }
        if (l->len == SA_CGROUP_LINE_MAX) {
            too_long = true;
            l->len = 0;
        }
        got = sa_sys_read(l->fd, l->text + l->len, SA_CGROUP_LINE_MAX - l->len);
        if (got <= 0) {
            sa_sys_close(l->fd);
            return false;
        }
        l->len += (size_t)got;
    }
}

/* Whether a list of words, separated by commas, contains the word. */
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

/* Finds the path of the process's group within its hierarchy. False: /proc does not name one. */
static bool own_group(struct sa_cgroup_lines *lines, const char *root, bool v2,
                      char ret[SA_CGROUP_PATH_MAX])
{
    char *line = lines->line;
    bool found = false;

    if (!own_open(lines, root, "/cgroup"))
        return false;
    while (lines_next(lines)) { /* 0::/path or 4:cpu,memory:/path */
        char *list = strchr(line, ':'), *path = list ? strchr(list + 1, ':') : NULL;

        if (!path || found)
            continue;
        *list++ = *path++ = '\0';
        if (v2 ? strcmp(line, "0") == 0 && !*list : list_has(list, "memory"))
            found = path_join(ret, SA_CGROUP_PATH_MAX, path, "");
    }
    return found;
}

/* Cuts the next word off the line and returns it, or NULL at the end. */
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

/* Replaces \040 and the like, which stand for blanks and backslashes in paths, by the
 * characters. */
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

/* Parses a line of mountinfo. True if it mounts the hierarchy: *ret_root is the group that is
 * mounted, *ret_point the mount point. */
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

/* Returns the part of a path below the path `top`, or NULL if it does not lie below it. */
static const char *below(const char *path, const char *top)
{
    size_t len = strcmp(top, "/") == 0 ? 0 : strlen(top);

    if (strncmp(path, top, len) != 0 || (path[len] && path[len] != '/') || strstr(path, "/.."))
        return NULL;
    return strcmp(path + len, "/") == 0 ? "" : path + len;
}

/* Finds the group's folder. *ret_point: the bytes of the mount point at its beginning. */
static bool find_folder(struct sa_cgroup_lines *lines, const char *root, bool v2,
                        char ret[SA_CGROUP_PATH_MAX], size_t *ret_point)
{
    char *group = lines->group, *top = group, *point = group;
    bool found = false, exact = false;

    if (!own_group(lines, root, v2, group) || !own_open(lines, root, "/mountinfo"))
        return false;
    while (lines_next(lines)) {
        const char *rest;

        if (exact || !parse_mount(lines->line, v2, &top, &point))
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

/* Parses a number that takes the whole line. SA_CGROUP_NONE: no number, or not below LIMIT_MAX. */
SA_INLINE uint64_t parse_number(const char *text)
{
    uint64_t v = 0;
    size_t i = 0;

    for (; text[i] >= '0' && text[i] <= '9' && v < LIMIT_MAX; i++)
        v = v * 10 + (uint64_t)(text[i] - '0');
    return i == 0 || (text[i] && text[i] != '\n') || v >= LIMIT_MAX ? SA_CGROUP_NONE : v;
}

/* Reads a number from a file. -1: the file cannot be read. */
SA_INLINE int read_number(struct sa_cgroup_lines *lines, const char *folder, const char *name,
                          uint64_t *ret)
{
    char text[64];

    *ret = SA_CGROUP_NONE;
    if (!path_join(lines->path, sizeof(lines->path), folder, name) ||
        sa_sys_read_file(lines->path, text, sizeof(text)) <= 0)
        return -1;
    *ret = parse_number(text);
    return 0;
}

/* Reads a limit; one below LIMIT_MIN counts as none. g->seen: set if the file exists. */
SA_INLINE uint64_t read_limit(struct sa_cgroup *g, const char *folder, const char *name)
{
    uint64_t v;

    g->seen |= read_number(&g->lines, folder, name, &v) == 0;
    return v < LIMIT_MIN ? SA_CGROUP_NONE : v;
}

/* Returns the bytes that the kernel takes from the group before the group is out of memory: cached
 * file pages, those in active use by half. */
static uint64_t read_cached(struct sa_cgroup_lines *lines, const char *folder, bool v2)
{
    static const char names[2][2][24] = {{"total_inactive_file ", "total_active_file "},
                                         {"inactive_file ", "active_file "}};
    uint64_t bytes = 0, v;

    if (!lines_open(lines, folder, "/memory.stat"))
        return 0;
    while (lines_next(lines)) {
        for (unsigned i = 0; i < 2; i++) {
            size_t len = strlen(names[v2][i]);

            if (strncmp(lines->line, names[v2][i], len) != 0)
                continue;
            v = parse_number(lines->line + len);
            bytes += v == SA_CGROUP_NONE ? 0 : v >> i;
        }
    }
    return bytes;
}

/* Reads how much a group may still take, and keeps it in *ret if that is less than before. Cached
 * pages are read only if less than half of the limit is left. */
static void read_room(struct sa_cgroup *g, const char *folder, bool v2, uint64_t limit,
                      struct sa_cgroup_room *ret)
{
    uint64_t used;
    int64_t room;

    if (limit == SA_CGROUP_NONE)
        return;
    read_number(&g->lines, folder, v2 ? "/memory.current" : "/memory.usage_in_bytes", &used);
    used = used == SA_CGROUP_NONE ? 0 : used;
    room = (int64_t)(limit - used);
    if (room >= ret->room)
        return;
    if (room < (int64_t)(limit / 2))
        room += (int64_t)sa_min(read_cached(&g->lines, folder, v2), used);
    if (room < ret->room)
        *ret = (struct sa_cgroup_room){.limit = limit, .room = room};
}

/* Reads the limits of one hierarchy, from the process's group upwards. room: NULL, or the group
 * with the least room is put there. */
static void read_hierarchy(struct sa_cgroup *g, bool v2, struct sa_cgroup_limits *ret,
                           struct sa_cgroup_room *room)
{
    char *folder = g->lines.group;
    size_t len = g->points[v2] ? strlen(g->folders[v2]) : 0;

    if (!len)
        return;
    memcpy(folder, g->folders[v2], len + 1);
    for (;;) {
        const char *name = v2 ? "/memory.max" : "/memory.limit_in_bytes";
        uint64_t max = read_limit(g, folder, name), high = SA_CGROUP_NONE;

        if (v2)
            high = read_limit(g, folder, "/memory.high");
        ret->max = sa_min(ret->max, max);
        ret->high = sa_min(ret->high, high);
        if (room)
            read_room(g, folder, v2, sa_min(max, high), room);
        len = strlen(folder);
        while (len > g->points[v2] && folder[len - 1] != '/')
            len--;
        if (len <= g->points[v2])
            break;
        folder[len - 1] = '\0'; /* the parent group */
    }
}

void sa_cgroup_find(struct sa_cgroup *g, const char *root)
{
    for (int v2 = 0; v2 < 2; v2++)
        if (!find_folder(&g->lines, root, v2, g->folders[v2], &g->points[v2]))
            g->points[v2] = 0;
}

void sa_cgroup_read_room(struct sa_cgroup *g, struct sa_cgroup_room *ret)
{
    struct sa_cgroup_limits limits = {SA_CGROUP_NONE, SA_CGROUP_NONE};

    *ret = (struct sa_cgroup_room){.limit = SA_CGROUP_NONE, .room = INT64_MAX};
    g->seen = false;
    read_hierarchy(g, true, &limits, ret);
    read_hierarchy(g, false, &limits, ret);
}

void sa_cgroup_read_limits(const char *root, struct sa_cgroup_limits *ret)
{
    struct sa_cgroup *g = sa_scratch_take();

    *ret = (struct sa_cgroup_limits){SA_CGROUP_NONE, SA_CGROUP_NONE};
    if (!g)
        return;
    g->seen = false;
    sa_cgroup_find(g, root);
    read_hierarchy(g, true, ret, NULL);
    read_hierarchy(g, false, ret, NULL);
    sa_scratch_give(g);
}

SA_STATIC_ASSERT(sizeof(struct sa_cgroup) <= SA_SCRATCH_BYTES, "it fits");

bool sa_cgroup_folder(const char *root, char ret[SA_CGROUP_PATH_MAX])
{
    struct sa_cgroup_lines *lines = sa_scratch_take();
    bool found;
    size_t point;

    found = lines && find_folder(lines, root, true, ret, &point);
    sa_scratch_give(lines);
    return found;
}
