/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The objects that are loaded now, and where: what turns an address into a place in a file. Ranges
 * are those of the program headers, not of /proc/self/maps, whose rows do not say where a segment
 * begins; readers of profiles compute wrong names from those.
 *
 * Asks the loader, so it is only called outside of the allocator: no lock of ours held, no gate
 * entered. A collection belongs to its caller and does not change.
 */
#ifndef SA_SAMPLING_SYMBOLIZE_MAPPINGS_H
#define SA_SAMPLING_SYMBOLIZE_MAPPINGS_H

#include "alloc/os/buffer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SA_BUILD_ID_MAX 32

/* A PT_LOAD of an object. */
struct sa_segment {
    uintptr_t start, limit;
    uint64_t offset, vaddr, file_bytes;
    uint32_t object; /* index */
};

struct sa_object {
    uintptr_t base;   /* load address minus address in the file */
    size_t name;      /* where its name begins in names */
    uint32_t segment; /* its first one */
    uint32_t segments;
    bool main; /* the program itself */
    bool vdso;
    uint8_t build_id_bytes; /* 0: none */
    uint8_t build_id[SA_BUILD_ID_MAX];
};

struct sa_mappings {
    struct sa_buffer objects, segments; /* the program's first */
    struct sa_buffer names;
};

/* 0 or -ENOMEM. */
int sa_mappings_collect(struct sa_mappings *ret);

/* Only the object that has an address, without the loader's lock: for signal handlers too. 0,
 * -ENOENT, -ENOMEM. */
int sa_mappings_of(uintptr_t address, struct sa_mappings *ret);
void sa_mappings_free(struct sa_mappings *mappings);

/* For the child: from now on without the loader's lock. */
void sa_mappings_after_fork(void);

static inline size_t sa_mappings_segments(const struct sa_mappings *m)
{
    return m->segments.used / sizeof(struct sa_segment);
}

static inline const struct sa_segment *sa_mappings_segment(const struct sa_mappings *m, size_t i)
{
    return (const struct sa_segment *)m->segments.data + i;
}

static inline size_t sa_mappings_objects(const struct sa_mappings *m)
{
    return m->objects.used / sizeof(struct sa_object);
}

static inline const struct sa_object *sa_mappings_object(const struct sa_mappings *m, size_t i)
{
    return (const struct sa_object *)m->objects.data + i;
}

/* Absolute path of an object's file; "[vdso]". */
static inline const char *sa_mappings_name(const struct sa_mappings *m, const struct sa_object *o)
{
    return m->names.data + o->name;
}

/* The segment with an address, or NULL. */
const struct sa_segment *sa_mappings_find(const struct sa_mappings *m, uintptr_t address);

/* The build id in the notes of an object, looked for in `bytes` of them with that alignment; the
 * number of its bytes, 0 if there is none. */
size_t sa_build_id(const uint8_t *notes, size_t bytes, size_t align, uint8_t ret[SA_BUILD_ID_MAX]);

#endif
