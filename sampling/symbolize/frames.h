/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collects the addresses of a profile, each once, with the names of their functions. A collection
 * is made for one file and freed when the file is written. It belongs to its caller and does not
 * change meanwhile. Collecting asks the loader and reads files, so the caller holds no lock of the
 * allocator and is not inside the fork gate.
 *
 * An address is a return address. The call that it returns from ends at the byte before, and
 * lookups use that byte.
 */
#ifndef SA_SAMPLING_SYMBOLIZE_FRAMES_H
#define SA_SAMPLING_SYMBOLIZE_FRAMES_H

#include "alloc/base/atomic.h"
#include "sampling/profile/profile.h"
#include "sampling/symbolize/mappings.h"

struct sa_frame {
    uintptr_t pc;      /* return address */
    uint32_t segment;  /* index in mappings plus 1; 0: in no object */
    uint32_t function; /* number of its function, from 1; frames of one function are neighbours */
    size_t name;       /* offset in names: a symbol; else "object+0x123", as addr2line takes it, or
                          "0x123" outside of all objects, unless the profile's origin has a name,
                          and "[unloaded object+0x123]" in one that was unloaded */
    bool guess;        /* the object has no symbol table. A reader of the file may find the name */
};

struct sa_frames {
    struct sa_mappings mappings;
    struct sa_buffer frames; /* sorted by pc */
    struct sa_buffer names;
    uint32_t functions;
};

/* Collects all addresses of the profile. Returns 0, and the caller frees *ret with sa_frames_free;
 * or -ENOMEM, and *ret holds nothing. */
int sa_frames_collect(const struct sa_profile *profile, struct sa_frames *ret);

/* Frees the memory of a collection. */
void sa_frames_free(struct sa_frames *frames);

static inline size_t sa_frames_count(const struct sa_frames *f)
{
    return f->frames.used / sizeof(struct sa_frame);
}

static inline const struct sa_frame *sa_frames_frame(const struct sa_frames *f, size_t i)
{
    return (const struct sa_frame *)f->frames.data + i;
}

/* Returns the index of a return address. Requires that the profile has it. */
size_t sa_frames_find(const struct sa_frames *f, uintptr_t pc);

/* Returns the name of a return address of the profile. It belongs to the collection. */
static inline const char *sa_frames_name(const struct sa_frames *f, uintptr_t pc)
{
    return f->names.data + sa_frames_frame(f, sa_frames_find(f, pc))->name;
}

/* The single address of the unknown stack (sa_stack_unknown), and its name. No code is there. */
#define SA_FRAMES_NOWHERE  ((uintptr_t)1)
#define SA_FRAMES_NO_STACK "[stack not kept]"

/* Returns the number of frames of a stack, and its frame i, leaf first. The unknown stack has one.
 */
static inline size_t sa_frames_depth(const struct sa_stack *stack)
{
    return stack->depth ? stack->depth : 1;
}

static inline uintptr_t sa_frames_pc(const struct sa_stack *stack, size_t i)
{
    return stack->depth ? sa_load_relaxed(&stack->pc[i]) : SA_FRAMES_NOWHERE;
}

#endif
