/* SPDX-License-Identifier: Apache-2.0 */
/* Files of other kinds; see foreign_file.h. No state. No valid profile.proto begins as one of
 * these: a field that they would begin with is of another type there, or text goes on behind it. */
#include "tool/base/foreign_file.h"

#include <string.h>

/* Packed files: their first bytes, and who unpacks them. */
static const struct packing {
    const char *name, *command, *bytes;
    size_t count;
} packings[] = {
    {"zstd", "zstd -d", "\x28\xb5\x2f\xfd", 4},
    {"zstd", "zstd -d", "\x50\x2a\x4d\x18", 4}, /* of pzstd */
    {"lz4", "lz4 -d", "\x04\x22\x4d\x18", 4},
    {"lz4", "lz4 -d", "\x02\x21\x4c\x18", 4}, /* of lz4 -l */
    {"xz", "xz -d", "\xfd\x37zXZ\0", 6},
    {"lzma", "xz -d", "\x5d\0\0", 3},
    {"bzip2", "bzip2 -d", "BZh", 3},
    {"lzip", "lzip -d", "LZIP", 4},
    {"lzop", "lzop -d", "\x89LZO\0", 5},
    {"compress", "gzip -d", "\x1f\x9d", 2},
    {"zip", "unzip", "PK\3\4", 4},
    {"7-Zip", "7z x", "7z\xbc\xaf\x27\x1c", 6},
};
static const struct packing gzip = {"gzip", "gzip -d", "\x1f\x8b", 2};

/* Profiles of other tools. */
static const struct {
    const char *what, *remedy, *bytes;
    size_t count;
} others[] = {
    {"a heap profile in gperftools' text format",
     "'go tool pprof -proto -output=OUT.pb.gz FILE' converts it", "heap profile:", 13},
    {"a heap profile of jemalloc", "'jeprof' reads it, and 'jeprof --collapsed' converts it",
     "heap_v2/", 8},
    {"a CPU profile of gperftools", "'go tool pprof -proto -output=OUT.pb.gz FILE' converts it",
     "\0\0\0\0\0\0\0\0\3\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 24},
    {"a contention profile in gperftools' text format",
     "'go tool pprof -proto -output=OUT.pb.gz FILE' converts it", "--- contention", 14},
    {"a contention profile in gperftools' text format",
     "'go tool pprof -proto -output=OUT.pb.gz FILE' converts it", "--- mutex:", 10},
    {"a profile with symbols in pprof's raw format", "'google-pprof' and 'jeprof' read it",
     "--- symbol", 10},
    {"a recording of Linux perf", "'perf_to_profile -i FILE -o OUT.pb.gz' converts it", "PERFILE2",
     8},
    {"a Java flight recording", "async-profiler's 'jfrconv -o pprof FILE OUT.pb.gz' converts it",
     "FLR\0", 4},
    {"a heap dump of Java", "heap analysers for Java read it", "JAVA PROFILE ", 13},
    {"a profile of valgrind's massif", "'ms_print' reads it", "desc: ", 6},
    {"a recording of callgrind", "'callgrind_annotate' and KCachegrind read it",
     "# callgrind format", 18},
    {"an execution trace of Go", "'go tool trace' reads it", "go 1.", 5},
    {"a recording of memray", "'memray' reads it", "memray", 6},
};

/* JSON: names that a kind of it has near its beginning. */
static const struct {
    const char *what, *remedy, *key;
} jsons[] = {
    {"a heap profile of V8 (JSON)", "speedscope and Chrome's DevTools read it",
     "\"head\":{\"callFrame\""},
    {"a CPU profile of V8 (JSON)", "speedscope and Chrome's DevTools read it", "\"callFrame\""},
    {"a heap snapshot of V8 (JSON)", "Chrome's DevTools read it", "\"node_fields\""},
    {"a file of speedscope (JSON)", "speedscope reads it", "speedscope.app/file-format"},
    {"a trace of events (JSON)", "Perfetto reads it", "\"traceEvents\""},
    {"a file of JSON", "a profile.proto is binary", ""},
};

static bool packed(const char *path, const struct packing *p, const void *first, size_t bytes,
                   struct sa_error *e)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;

    if (bytes < p->count || memcmp(first, p->bytes, p->count) != 0)
        return false;
    sa_error_set(e, SA_EXIT_DAMAGED, "%s: it is compressed by %s: '%s' makes it readable%s", path,
                 p->name, p->command,
                 strncmp(name, "core", 4) == 0
                     ? "; 'coredumpctl dump -o FILE PID' writes a core of systemd's that way"
                     : "");
    return true;
}

static void tell_other(const char *path, const char *what, const char *remedy, struct sa_error *e)
{
    sa_error_set(e, SA_EXIT_DAMAGED, "%s: it is %s, no profile.proto or core: %s", path, what,
                 remedy);
}

/* Whether the bytes are characters of a text, and none that controls something. */
static bool is_text(const unsigned char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if ((bytes[i] < ' ' && (bytes[i] < '\t' || bytes[i] > '\r')) || bytes[i] == 127)
            return false;
    return count > 3;
}

/* Whether a line ends with a blank and a number, behind names with semicolons between them. */
static bool is_collapsed(const char *line)
{
    size_t length = strcspn(line, "\r\n");
    const char *at = line + length;

    while (at > line && at[-1] >= '0' && at[-1] <= '9')
        at--;
    return at > line + 1 && at < line + length && at[-1] == ' ' &&
           memchr(line, ';', (size_t)(at - line));
}

static void tell_text(const char *path, const char *text, struct sa_error *e)
{
    const char *at = text + (strncmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0);

    at += strspn(at, " \t\r\n");
    for (size_t i = 0; (*at == '{' || *at == '[') && i < sizeof(jsons) / sizeof(*jsons); i++)
        if (strstr(at, jsons[i].key)) {
            tell_other(path, jsons[i].what, jsons[i].remedy, e);
            return;
        }
    if (*at == '<')
        tell_other(path, "a page of HTML or XML", "a browser shows it", e);
    else if (is_collapsed(at))
        tell_other(path, "a text of collapsed stacks", "speedscope and flamegraph.pl read it", e);
    else
        tell_other(path, "a text", "a profile.proto is binary", e);
}

bool sa_foreign_file_tell(const char *path, const void *first, size_t bytes, struct sa_error *e)
{
    char text[SA_FOREIGN_FILE_BYTES + 1];
    size_t n = bytes < SA_FOREIGN_FILE_BYTES ? bytes : SA_FOREIGN_FILE_BYTES;

    for (size_t i = 0; i < sizeof(packings) / sizeof(*packings); i++)
        if (packed(path, &packings[i], first, bytes, e))
            return true;
    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
        if (bytes >= others[i].count && memcmp(first, others[i].bytes, others[i].count) == 0) {
            tell_other(path, others[i].what, others[i].remedy, e);
            return true;
        }
    if (!is_text(first, n))
        return false;
    memcpy(text, first, n);
    text[n] = '\0';
    tell_text(path, text, e);
    return true;
}

bool sa_foreign_file_tell_gzip(const char *path, const void *first, size_t bytes,
                               struct sa_error *e)
{
    return packed(path, &gzip, first, bytes, e);
}
