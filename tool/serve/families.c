/* SPDX-License-Identifier: Apache-2.0 */
/* Families of metrics; see families.h. */
#include "tool/serve/families.h"

#include "tool/base/array.h"
#include "tool/base/text.h"

#include <string.h>

#define FAMILIES_MAX 4096

static struct sa_metric_family *find(struct sa_families *f, const char *name, size_t hint)
{
    struct sa_metric_family *family;

    /* Pages have the same families in the same order, so the next one is mostly right. */
    for (size_t i = 0; i < f->count; i++) {
        family = &f->of[(hint + i) % f->count];
        if (strcmp(family->name, name) == 0)
            return family;
    }
    if (f->count == FAMILIES_MAX ||
        !sa_array_room(&f->of, &f->cap, f->count + 1, sizeof(*f->of), 256))
        return NULL;
    family = &f->of[f->count++];
    memset(family, 0, sizeof(*family));
    strcpy(family->name, name);
    return family;
}

static bool put(struct sa_lines *out, const char *text, size_t bytes)
{
    if (!sa_array_room(&out->data, &out->cap, out->used + bytes, 1, 256))
        return false;
    memcpy(out->data + out->used, text, bytes);
    out->used += bytes;
    return true;
}

/* The name in "# TYPE NAME ..."; false: it is another line. */
static bool name_of_type(const char *line, size_t bytes, char ret[96])
{
    static const char type[] = "# TYPE ";
    size_t n = sizeof(type) - 1, length = 0;

    if (bytes < n || memcmp(line, type, n) != 0)
        return false;
    while (n + length < bytes && line[n + length] != ' ')
        length++;
    if (length == 0 || length >= 96)
        return false;
    memcpy(ret, line + n, length);
    ret[length] = '\0';
    return true;
}

/* Puts a sample with more labels: NAME VALUE or NAME{LABELS} VALUE. */
static bool put_sample(struct sa_lines *out, const char *line, size_t bytes, const char *labels)
{
    size_t name = 0;
    bool has;

    while (name < bytes && line[name] != '{' && line[name] != ' ')
        name++;
    if (name == 0 || name == bytes)
        return true; /* no sample */
    has = line[name] == '{';
    return put(out, line, name) && put(out, "{", 1) && put(out, labels, strlen(labels)) &&
           put(out, has ? "," : "}", 1) && put(out, line + name + has, bytes - name - has) &&
           put(out, "\n", 1);
}

bool sa_families_add(struct sa_families *f, const char *page, size_t bytes, const char *labels)
{
    struct sa_metric_family *family = NULL;
    bool first = false, fine = true;
    size_t length;

    for (size_t at = 0; at < bytes && fine; at += length + 1) {
        const char *line = page + at, *end = memchr(line, '\n', bytes - at);
        char name[96];

        length = end ? (size_t)(end - line) : bytes - at;
        if (name_of_type(line, length, name)) {
            family = find(f, name, family ? (size_t)(family - f->of) + 1 : 0);
            if (!family)
                return false;
            first = !family->head.used;
        }
        if (!family || !length)
            continue;
        if (line[0] != '#')
            fine = put_sample(&family->samples, line, length, labels);
        else if (first && !(length == 5 && memcmp(line, "# EOF", 5) == 0))
            fine = put(&family->head, line, length) && put(&family->head, "\n", 1);
    }
    return fine;
}

bool sa_families_put(const struct sa_families *f, struct sa_buffer *out)
{
    bool fine = true;

    for (size_t i = 0; i < f->count && fine; i++) {
        const struct sa_metric_family *family = &f->of[i];

        fine = sa_text_put(out, family->head.data, family->head.used) &&
               sa_text_put(out, family->samples.data, family->samples.used);
    }
    return fine;
}

void sa_families_free(struct sa_families *f)
{
    for (size_t i = 0; i < f->count; i++) {
        free(f->of[i].head.data);
        free(f->of[i].samples.data);
    }
    free(f->of);
    memset(f, 0, sizeof(*f));
}
