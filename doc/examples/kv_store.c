/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A key-value store that moves its values out of sparse spans.
 *
 * The store has a table of values in blocks of malloc. Its values change their sizes over time, so
 * the survivors of old sizes lie alone on their spans. store_defragment() asks for a few values at
 * a time whether moving them helps, as a server does between requests.
 *
 *   cc -O2 kv_store.c -lsalloc -o kv_store
 *   ./kv_store [--move]
 *
 * The last line has the memory of the process beside what the values take.
 */
#include <salloc/salloc.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEYS      (1u << 17)
#define LIVE_MAX  (48ul << 20) /* bytes of values that the store keeps */
#define PHASES    12           /* each has other sizes */
#define REQUESTS  400000       /* of a phase */
#define AT_A_TIME 64           /* values that are looked at after 16 requests */

struct value {
    uint32_t bytes;
    unsigned char data[];
};

struct store {
    struct value *values[KEYS]; /* by key; NULL: the store does not have it */
    size_t bytes;
    uint32_t oldest; /* keys are given up in turn */
    uint32_t looked; /* where store_defragment goes on */
};

static void store_remove(struct store *s, uint32_t key)
{
    struct value *v = s->values[key];

    if (!v)
        return;
    s->bytes -= v->bytes;
    s->values[key] = NULL;
    free(v);
}

static int store_set(struct store *s, uint32_t key, uint32_t bytes)
{
    struct value *v;

    store_remove(s, key);
    while (s->bytes + bytes > LIVE_MAX)
        store_remove(s, s->oldest++ % KEYS);
    v = malloc(sizeof(*v) + bytes);
    if (!v)
        return -1;
    v->bytes = bytes;
    memset(v->data, (int)key, bytes);
    s->values[key] = v;
    s->bytes += bytes;
    return 0;
}

/* Looks at the next values, and moves those that lie on sparse spans. The table has the only
 * pointer to a value, so it is easy to replace. */
static size_t store_defragment(struct store *s, size_t count)
{
    size_t moved = 0;

    while (count--) {
        struct value **place = &s->values[s->looked++ % KEYS], *better;

        if (!*place || !salloc_worth_moving(*place))
            continue;
        better = salloc_move(*place);
        if (better) {
            *place = better;
            moved++;
        }
    }
    return moved;
}

static uint64_t random_state = 1;

static uint32_t random_below(uint32_t n)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((random_state >> 33) % n);
}

static size_t resident_bytes(void)
{
    unsigned long pages = 0;
    FILE *f = fopen("/proc/self/statm", "re");

    if (!f || fscanf(f, "%*s %lu", &pages) != 1)
        pages = 0;
    if (f)
        fclose(f);
    return pages * 4096;
}

int main(int argc, char **argv)
{
    int moves = argc > 1 && strcmp(argv[1], "--move") == 0;
    struct store *s = calloc(1, sizeof(*s));
    size_t moved = 0, sum = 0;

    if (!s)
        return 1;
    for (int phase = 0; phase < PHASES; phase++) {
        uint32_t least = 16 + random_below(1500), range = least / 2 + 1;

        for (int i = 0; i < REQUESTS; i++) {
            if (store_set(s, random_below(KEYS), least + random_below(range)) != 0)
                return 1;
            if (moves && i % 16 == 0)
                moved += store_defragment(s, AT_A_TIME);
        }
        salloc_release_free_memory(SIZE_MAX); /* free pages, which time releases, too */
        sum += resident_bytes() / (s->bytes / 1000);
    }
    printf("RSS over live %.2f (mean of %d phases), %zu values moved\n",
           (double)sum / PHASES / 1000, PHASES, moved);
    for (uint32_t key = 0; key < KEYS; key++) {
        struct value *v = s->values[key];

        for (uint32_t i = 0; v && i < v->bytes; i++)
            if (v->data[i] != (unsigned char)key)
                return 1; /* a value was damaged */
        store_remove(s, key);
    }
    free(s);
    return 0;
}
