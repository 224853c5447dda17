/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the fuzz targets share. A target is one file with LLVMFuzzerTestOneInput, which reads an
 * input as a sequence of decisions, carries them out against the module and against a simple model
 * of it, and aborts with one line when they disagree. It runs under libFuzzer (-Dfuzz=enabled), and
 * under replay.c everywhere else.
 *
 * An input that has ended goes on with zeros, so that every input is a whole one.
 */
#ifndef SA_TEST_FUZZ_H
#define SA_TEST_FUZZ_H

/* No other thread runs: locks guard nothing. */
#ifdef __clang__
#pragma clang diagnostic ignored "-Wthread-safety"
#endif

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv); /* a target may have it */

#define FUZZ_FAIL(...)                                                                             \
    do {                                                                                           \
        fprintf(stderr, "%s:%d: ", __FILE__, __LINE__);                                            \
        fprintf(stderr, __VA_ARGS__);                                                              \
        fputc('\n', stderr);                                                                       \
        abort();                                                                                   \
    } while (0)

#define FUZZ_CHECK(c)                                                                              \
    do {                                                                                           \
        if (!(c))                                                                                  \
            FUZZ_FAIL("does not hold: %s", #c);                                                    \
    } while (0)

#define FUZZ_EQUAL(a, b)                                                                           \
    do {                                                                                           \
        long long fuzz_a = (long long)(a), fuzz_b = (long long)(b);                                \
        if (fuzz_a != fuzz_b)                                                                      \
            FUZZ_FAIL("%s is %lld, %s is %lld", #a, fuzz_a, #b, fuzz_b);                           \
    } while (0)

struct fuzz_input {
    const uint8_t *at, *end;
};

static inline size_t fuzz_left(const struct fuzz_input *in)
{
    return (size_t)(in->end - in->at);
}

static inline uint8_t fuzz_byte(struct fuzz_input *in)
{
    return in->at < in->end ? *in->at++ : 0;
}

/* n <= 8 bytes, the least significant first. */
static inline uint64_t fuzz_number(struct fuzz_input *in, unsigned n)
{
    uint64_t v = 0;

    for (unsigned i = 0; i < n; i++)
        v |= (uint64_t)fuzz_byte(in) << 8 * i;
    return v;
}

/* 0 .. n - 1, of as few bytes as n needs; n > 0. */
static inline size_t fuzz_below(struct fuzz_input *in, size_t n)
{
    return (size_t)fuzz_number(in, n <= 256 ? 1 : n <= 65536 ? 2 : 4) % n;
}

/* About evenly spread over orders of magnitude: 1 .. 2^bits - 1; bits <= 32. */
static inline size_t fuzz_size(struct fuzz_input *in, unsigned bits)
{
    size_t top = (size_t)1 << fuzz_below(in, bits);

    return top == 1 ? 1 : top | fuzz_below(in, top);
}

/* A copy of up to `most` bytes of the input, in memory of exactly their number, so that a sanitizer
 * sees the end of it. The caller frees it. */
static inline uint8_t *fuzz_bytes(struct fuzz_input *in, size_t max, size_t *ret)
{
    size_t n = fuzz_left(in) < max ? fuzz_left(in) : max;
    uint8_t *copy = malloc(n ? n : 1);

    FUZZ_CHECK(copy);
    if (n)
        memcpy(copy, in->at, n);
    in->at += n;
    *ret = n;
    return copy;
}

#endif
