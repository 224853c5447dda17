/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The addresses of a profile, each once, with the names of their functions as far as they can be
 * had. Made for one file and freed when it is written. Asks the loader and reads files: only
 * outside of the allocator.
 *
 * An address is a return address; the call that it returns from is the byte before.
 */
#ifndef SA_SAMPLING_SYMBOLIZE_FRAMES_H
#define SA_SAMPLING_SYMBOLIZE_FRAMES_H

#include "sampling/profile/profile.h"
#include "sampling/symbolize/mappings.h"

struct sa_frame {
    uintptr_t pc;      /* return address */
    uint32_t segment;  /* index in mappings plus 1; 0: in no object */
    uint32_t function; /* number of its function, from 1; frames of one function are neighbours */
    /* Offset in names: a symbol; "object+0x123", as addr2line takes it; "0x123" for what is in no
     * object. */
    size_t name;
    bool guess; /* the second, and the object has no symbol table: another reader may know better */
};

struct sa_frames {
    struct sa_mappings mappings;
    struct sa_buffer frames; /* sorted by pc */
    struct sa_buffer names;
    uint32_t functions;
};

/* 0 or -ENOMEM. */
int sa_frames_collect(const struct sa_profile *profile, struct sa_frames *ret);
void sa_frames_free(struct sa_frames *frames);

static inline size_t sa_frames_count(const struct sa_frames *f)
{
    return f->frames.used / sizeof(struct sa_frame);
}

static inline const struct sa_frame *sa_frames_frame(const struct sa_frames *f, size_t i)
{
    return (const struct sa_frame *)f->frames.data + i;
}

/* The number of a return address of the profile. */
size_t sa_frames_find(const struct sa_frames *f, uintptr_t pc);

static inline const char *sa_frames_name(const struct sa_frames *f, uintptr_t pc)
{
    return f->names.data + sa_frames_frame(f, sa_frames_find(f, pc))->name;
}

/* A return address that is none, and the name that it gets: stands for a stack that could not be
 * kept. */
#define SA_FRAMES_NOWHERE  ((uintptr_t)1)
#define SA_FRAMES_NO_STACK "[stack not kept]"

/* The frames of a stack, leaf first. */
static inline size_t sa_frames_depth(const struct sa_stack *stack)
{
    return stack->depth ? stack->depth : 1;
}

static inline uintptr_t sa_frames_pc(const struct sa_stack *stack, size_t i)
{
    return stack->depth ? stack->pc[i] : SA_FRAMES_NOWHERE;
}

#endif
