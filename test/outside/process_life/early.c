/* SPDX-License-Identifier: Apache-2.0 */
/*
 * malloc before any constructor has run, and after the last destructor: from .preinit_array, from
 * constructors, from atexit handlers and destructors. Blocks live on from one phase into the next.
 */
#include "test/outside/check.h"

enum { BLOCKS = 200 };

static char *blocks[BLOCKS];
static size_t *ended;

static void make(int from, int to)
{
    for (int i = from; i < to; i++) {
        size_t n = (size_t)(i + 1) * (i % 16 == 15 ? 20000 : 37);

        blocks[i] = calloc(1, n);
        REQUIRE(blocks[i] && blocks[i][0] == 0 && blocks[i][n - 1] == 0);
        memset(blocks[i], i, n);
    }
}

static void preinit(void)
{
    make(0, 50);
    ended = malloc(sizeof(*ended));
    *ended = 0;
}

__attribute__((section(".preinit_array"), used)) static void (*preinit_entry)(void) = preinit;

__attribute__((constructor)) static void constructor(void)
{
    make(50, 100);
    for (int i = 0; i < 25; i++) {
        CHECK(blocks[i][i] == i);
        free(blocks[i]);
    }
}

static void last(void)
{
    for (int i = 60; i < BLOCKS; i++) {
        REQUIRE((unsigned char)blocks[i][i] == i);
        blocks[i] = realloc(blocks[i], 100000);
        REQUIRE(blocks[i] && (unsigned char)blocks[i][i] == i);
        free(blocks[i]);
    }
    (*ended)++;
}

__attribute__((destructor)) static void destructor(void)
{
    REQUIRE(*ended == 1);
    free(ended);
    for (int i = 0; i < 1000; i++)
        free(malloc((size_t)i * 100));
}

int main(void)
{
    check_begin();
    make(100, BLOCKS);
    for (int i = 25; i < 60; i++) {
        CHECK(blocks[i][i] == i);
        free(blocks[i]);
    }
    atexit(last);
    return check_end();
}
