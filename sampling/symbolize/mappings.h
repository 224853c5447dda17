/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collects the loaded objects and their segments, which turn an address into a place in a file.
 * Ranges are those of the program headers. The rows of /proc/self/maps do not say where a segment
 * begins, so readers of profiles compute wrong names from them.
 *
 * Collecting asks the loader. The caller therefore holds no lock of the allocator and is not inside
 * the fork gate. A collection belongs to its caller, and does not change until it is freed.
 */
#ifndef SA_SAMPLING_SYMBOLIZE_MAPPINGS_H
#define SA_SAMPLING_SYMBOLIZE_MAPPINGS_H

#include "alloc/base/fatal.h"
#include "alloc/os/buffer.h"

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SA_BUILD_ID_MAX 32 /* bytes; a longer build id counts as none */

/* A loadable segment (PT_LOAD) of an object. */
struct sa_segment {
    uintptr_t start, limit; /* addresses [start, limit) in memory */
    uint64_t offset;        /* in the file */
    uint64_t vaddr;         /* address in the file */
    uint64_t file_bytes;    /* bytes of the file that it has */
    uint32_t object;        /* index of its object */
};

struct sa_object {
    uintptr_t base;         /* address in memory minus address in the file */
    size_t name;            /* offset in names */
    size_t file;            /* the same of the path by which it is opened; 0: its name */
    uint32_t segment;       /* index of its first segment; the others follow */
    uint32_t segments;      /* number of its segments */
    bool main;              /* the object is the program itself */
    bool vdso;              /* the object is the kernel's */
    uint8_t build_id_bytes; /* 0: no build id is known */
    uint8_t build_id[SA_BUILD_ID_MAX];
};

struct sa_mappings {
    struct sa_buffer objects, segments; /* the program's first */
    struct sa_buffer names;
};

/* Collects all loaded objects, under the loader's lock. Returns 0, and the caller frees *ret with
 * sa_mappings_free; or -ENOMEM, and *ret holds nothing. */
int sa_mappings_collect(struct sa_mappings *ret);

/* Collects only the object that has the address, without the loader's lock: signal handlers may
 * call it. Returns 0 (as above), -ENOENT (no object has the address) or -ENOMEM. */
int sa_mappings_of(uintptr_t address, struct sa_mappings *ret);

/* Calls f(info, bytes, arg) for each loaded object, as dl_iterate_phdr does, until a call does not
 * return 0. Returns what the last call returned. */
int sa_mappings_each(int (*f)(struct dl_phdr_info *info, size_t bytes, void *arg), void *arg);

/* Stores what dl_iterate_phdr would say of the object that has the address, without the loader's
 * lock. False: no object has it. */
bool sa_mappings_info(uintptr_t address, struct dl_phdr_info *ret);

/* Adds the loadable segments among program headers to an object, whose base is known, and which has
 * or gets that index. False: no memory. */
bool sa_mappings_add_segments(struct sa_mappings *mappings, struct sa_object *object,
                              uint32_t index, const ElfW(Phdr) * header, size_t count);

/* Frees the memory of a collection. */
void sa_mappings_free(struct sa_mappings *mappings);

/* Makes sa_mappings_collect do without the loader's lock from now on. A child of fork calls this
 * while it has one thread. */
void sa_mappings_after_fork(void);

static inline size_t sa_mappings_segments(const struct sa_mappings *m)
{
    return m->segments.used / sizeof(struct sa_segment);
}

static inline const struct sa_segment *sa_mappings_segment(const struct sa_mappings *m, size_t i)
{
    SA_DCHECK(i < sa_mappings_segments(m));
    return (const struct sa_segment *)m->segments.data + i;
}

static inline size_t sa_mappings_objects(const struct sa_mappings *m)
{
    return m->objects.used / sizeof(struct sa_object);
}

static inline const struct sa_object *sa_mappings_object(const struct sa_mappings *m, size_t i)
{
    SA_DCHECK(i < sa_mappings_objects(m));
    return (const struct sa_object *)m->objects.data + i;
}

/* Returns the absolute path of an object's file, or "[vdso]". It is the loader's name of the object
 * if the file has no path now. It belongs to the collection. */
static inline const char *sa_mappings_name(const struct sa_mappings *m, const struct sa_object *o)
{
    return m->names.data + o->name;
}

/* Returns the segment that contains the address, or NULL. */
const struct sa_segment *sa_mappings_find(const struct sa_mappings *m, uintptr_t address);

/* Stores the build id that the notes at [notes, notes + bytes) contain, and returns its bytes. 0:
 * they contain none. align: that of the note segment. The notes may be damaged. */
size_t sa_build_id(const uint8_t *notes, size_t bytes, size_t align, uint8_t ret[SA_BUILD_ID_MAX]);

#endif
