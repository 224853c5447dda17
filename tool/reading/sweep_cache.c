/* SPDX-License-Identifier: Apache-2.0 */
/* What earlier sweeps have found; see sweep_cache.h. No state. In a file, each entry is a struct
 * line with the bytes behind it. */
#include "tool/reading/sweep_cache.h"

#include "tool/base/array.h"
#include "tool/base/io.h"
#include "tool/base/time.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

#define BYTES_MAX (64u << 20) /* of a file */

struct line {
    struct sa_sweep_moment at;
    uint32_t code, bytes;
};

bool sa_sweep_moment_of(pid_t pid, struct sa_sweep_moment *ret)
{
    struct timespec cpu;
    clockid_t clock;

    if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &cpu) != 0)
        return false;
    *ret = (struct sa_sweep_moment){.pid = pid,
                                    .cpu_ns = (int64_t)cpu.tv_sec * 1000000000 + cpu.tv_nsec,
                                    .read_ns = sa_time_ns(CLOCK_MONOTONIC)};
    return true;
}

/* The place of a PID, or of the first behind it. */
static size_t place_of(const struct sa_sweep_cache *cache, int64_t pid)
{
    size_t low = 0, high = cache->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (cache->of[middle].at.pid < pid)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct sa_sweep_cache_entry *sa_sweep_cache_find(const struct sa_sweep_cache *cache,
                                                 const struct sa_sweep_moment *now)
{
    size_t place = place_of(cache, now->pid);
    struct sa_sweep_cache_entry *entry = place < cache->count ? &cache->of[place] : NULL;
    int64_t age = entry ? now->read_ns - entry->at.read_ns : 0;

    return entry && entry->at.pid == now->pid && entry->at.cpu_ns == now->cpu_ns && age >= 0 &&
                   age < SA_SWEEP_CACHE_SECONDS * INT64_C(1000000000)
               ? entry
               : NULL;
}

static struct sa_sweep_cache_entry *add(struct sa_sweep_cache *cache,
                                        const struct sa_sweep_cache_entry *entry)
{
    if (!sa_array_room(&cache->of, &cache->cap, cache->count + 1, sizeof(*cache->of), 256))
        return NULL;
    cache->of[cache->count] = *entry;
    return &cache->of[cache->count++];
}

bool sa_sweep_cache_add(struct sa_sweep_cache *cache, const struct sa_sweep_moment *at,
                        uint32_t code, const char *data, size_t bytes)
{
    struct sa_sweep_cache_entry entry = {*at, code, (uint32_t)bytes, NULL};

    if (code != SA_EXIT_DONE && code != SA_EXIT_NOT_ON_IT)
        return true;
    entry.data = malloc(bytes + 1);
    if (!entry.data || !add(cache, &entry)) {
        free(entry.data);
        return false;
    }
    if (bytes)
        memcpy(entry.data, data, bytes);
    return true;
}

bool sa_sweep_cache_move(struct sa_sweep_cache *cache, struct sa_sweep_cache_entry *entry)
{
    if (!add(cache, entry))
        return false;
    entry->data = NULL;
    return true;
}

static bool is_in_map(const struct sa_sweep_cache *cache, const char *data)
{
    return cache->map && data >= cache->map && data <= cache->map + cache->map_bytes;
}

static void free_entries(struct sa_sweep_cache *cache)
{
    for (size_t i = 0; i < cache->count; i++)
        if (!is_in_map(cache, cache->of[i].data))
            free(cache->of[i].data);
    free(cache->of);
}

void sa_sweep_cache_pass(struct sa_sweep_cache *from, struct sa_sweep_cache *to)
{
    free_entries(from);
    to->map = from->map;
    to->map_bytes = from->map_bytes;
    memset(from, 0, sizeof(*from));
}

void sa_sweep_cache_free(struct sa_sweep_cache *cache)
{
    free_entries(cache);
    if (cache->map)
        munmap(cache->map, cache->map_bytes);
    memset(cache, 0, sizeof(*cache));
}

bool sa_sweep_cache_save(const struct sa_sweep_cache *cache, int fd)
{
    for (size_t i = 0; i < cache->count; i++) {
        const struct sa_sweep_cache_entry *entry = &cache->of[i];
        struct line line = {entry->at, entry->code, entry->bytes};

        if (sa_io_write_all(fd, &line, sizeof(line)) != 0 ||
            sa_io_write_all(fd, entry->data, entry->bytes) != 0)
            return false;
    }
    return true;
}

void sa_sweep_cache_load(struct sa_sweep_cache *cache, int fd)
{
    struct line line;
    struct stat s;
    size_t bytes;
    char *map;

    if (fstat(fd, &s) != 0 || s.st_size <= 0 || s.st_size > BYTES_MAX)
        return;
    bytes = (size_t)s.st_size;
    map = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map == MAP_FAILED)
        return;
    cache->map = map;
    cache->map_bytes = bytes;
    for (size_t at = 0; bytes - at >= sizeof(line); at += sizeof(line) + line.bytes) {
        struct sa_sweep_cache_entry entry;

        memcpy(&line, map + at, sizeof(line));
        entry =
            (struct sa_sweep_cache_entry){line.at, line.code, line.bytes, map + at + sizeof(line)};
        if (line.bytes > bytes - at - sizeof(line) ||
            (cache->count && cache->of[cache->count - 1].at.pid >= line.at.pid) ||
            !add(cache, &entry))
            break;
    }
}
