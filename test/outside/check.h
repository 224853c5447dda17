/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the programs of this folder share. They are ordinary programs that run with libsalloc.so
 * preloaded; nothing here may include the library's inner headers.
 *
 *   CHECK(condition)            reports a failure and goes on
 *   CHECK_SAYS(condition, ...)  the same, with figures
 *   REQUIRE(condition)          reports and ends the program: without it the rest means nothing
 *   SKIP(reason)                ends the program as skipped
 *
 * Reports allocate nothing, so that they also work when memory has run out.
 */
#ifndef SA_TEST_CHECK_H
#define SA_TEST_CHECK_H

#include <dlfcn.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define CHECK_SKIPPED 77

static int check_failures; /* atomic */

__attribute__((format(printf, 1, 2), unused)) static void check_say(const char *format, ...)
{
    char text[512];
    va_list ap;
    int n;

    va_start(ap, format);
    n = vsnprintf(text, sizeof(text) - 1, format, ap);
    va_end(ap);
    if (n > (int)sizeof(text) - 2)
        n = (int)sizeof(text) - 2;
    text[n++] = '\n';
    if (write(STDOUT_FILENO, text, (size_t)n) != n)
        _exit(1);
}

#define CHECK_SAYS(condition, ...)                                                                 \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            check_say("%s:%d: does not hold: %s", __FILE__, __LINE__, #condition);                 \
            check_say("    " __VA_ARGS__);                                                         \
            __atomic_fetch_add(&check_failures, 1, __ATOMIC_RELAXED);                              \
        }                                                                                          \
    } while (0)

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            check_say("%s:%d: does not hold: %s", __FILE__, __LINE__, #condition);                 \
            __atomic_fetch_add(&check_failures, 1, __ATOMIC_RELAXED);                              \
        }                                                                                          \
    } while (0)

#define REQUIRE(condition)                                                                         \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            check_say("%s:%d: does not hold: %s", __FILE__, __LINE__, #condition);                 \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

#define SKIP(...)                                                                                  \
    do {                                                                                           \
        check_say("skipped: " __VA_ARGS__);                                                        \
        _exit(CHECK_SKIPPED);                                                                      \
    } while (0)

/* First in every main: a program that runs on another malloc by mistake proves nothing. */
__attribute__((unused)) static void check_begin(void)
{
    void *address = dlsym(RTLD_DEFAULT, "malloc");
    Dl_info info;

    if (!address || !dladdr(address, &info) || !strstr(info.dli_fname, "libsalloc.so")) {
        check_say("malloc is not salloc's: preload libsalloc.so");
        _exit(1);
    }
}

/* Last in every main: its result. */
__attribute__((unused)) static int check_end(void)
{
    int failures = __atomic_load_n(&check_failures, __ATOMIC_RELAXED);

    if (failures)
        check_say("%d checks failed", failures);
    return failures ? 1 : 0;
}

/* How long a test whose length can be chosen runs. */
__attribute__((unused)) static double check_seconds(double ordinarily)
{
    const char *text = getenv("SALLOC_TEST_SECONDS");

    return text && *text ? strtod(text, NULL) : ordinarily;
}

__attribute__((unused)) static double check_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Numbers for random tests (splitmix64, Steele, Lea, Flood): seeded with a constant, so that a
 * failure repeats as far as threads let it. */
__attribute__((unused)) static uint64_t check_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15ull;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}

/* A field of /proc/self/status in KiB, read without stdio, which would allocate; 0 if it is not
 * there. */
__attribute__((unused)) static size_t check_status(const char *field)
{
    char text[4096], *at;
    int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = '\0';
    at = strstr(text, field);
    return at ? strtoul(at + strlen(field) + 1, NULL, 10) : 0;
}

/* Reads a file of /proc as a text, up to the room for it, without stdio. */
__attribute__((unused)) static void check_read(const char *path, char *text, size_t room)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t n = 0;
    ssize_t got;

    REQUIRE(fd >= 0);
    while ((got = read(fd, text + n, room - 1 - n)) > 0)
        n += (size_t)got;
    close(fd);
    text[n] = '\0';
}

/* A figure of the library's; 0 if there is none of the name. */
__attribute__((unused)) static size_t check_property(const char *name)
{
    int (*get)(const char *, size_t *) =
        (int (*)(const char *, size_t *))dlsym(RTLD_DEFAULT, "salloc_get_numeric_property");
    size_t value = 0;

    return get && get(name, &value) == 0 ? value : 0;
}

/* Keeps the compiler from knowing where a pointer came from. */
#define CHECK_OPAQUE(p) __asm__ volatile("" : "+r"(p)::"memory")

#endif
