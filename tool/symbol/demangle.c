/* SPDX-License-Identifier: Apache-2.0 */
/* Demangling by libiberty; see demangle.h. No state. */
#include "tool/symbol/demangle.h"

#include <stddef.h>

#ifdef SA_DEMANGLE
#include <libiberty/demangle.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#define PLAIN_MAX        65536
#define D_REFERENCES_MAX 12 /* in a name of D, whose translation has no bound of its own */
#define OPTIONS          (DMGL_PARAMS | DMGL_ANSI)

/* A plain name that grows. libiberty passes it on piece by piece, keeps nothing on the heap
 * meanwhile, and has no other way to be stopped than a jump. */
struct plain {
    char *text;
    size_t used;
    jmp_buf too_long;
};

static void add(const char *piece, size_t bytes, void *arg)
{
    struct plain *plain = arg;

    if (bytes >= PLAIN_MAX - plain->used)
        longjmp(plain->too_long, 1);
    memcpy(plain->text + plain->used, piece, bytes);
    plain->used += bytes;
}

/* Both languages may begin with "_Z": the older names of Rust are those of C++, and a hash. */
static bool translate(const char *name, struct plain *plain)
{
    if (setjmp(plain->too_long) != 0)
        return false;
    if (rust_demangle_callback(name, OPTIONS, add, plain))
        return true;
    plain->used = 0;
    return cplus_demangle_v3_callback(name, OPTIONS, add, plain);
}

/* At most so many places of a name of D repeat an earlier part. Each may double its length. */
static unsigned references(const char *name)
{
    unsigned count = 0;

    for (; *name; name++)
        count += *name == 'Q';
    return count;
}

char *sa_demangle(const char *name)
{
    struct plain plain = {.used = 0};
    char *fitting;

    if (strncmp(name, "_D", 2) == 0)
        return references(name) <= D_REFERENCES_MAX ? dlang_demangle(name, OPTIONS) : NULL;
    if (name[0] != '_') /* without a look at names of C, which are most */
        return NULL;
    plain.text = malloc(PLAIN_MAX);
    if (!plain.text)
        return NULL;
    if (!translate(name, &plain)) {
        free(plain.text);
        return NULL;
    }
    plain.text[plain.used] = '\0';
    fitting = realloc(plain.text, plain.used + 1);
    return fitting ? fitting : plain.text;
}

bool sa_can_demangle(void)
{
    return true;
}
#else
char *sa_demangle(const char *name)
{
    (void)name;
    return NULL;
}

bool sa_can_demangle(void)
{
    return false;
}
#endif
