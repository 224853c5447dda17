/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The threads of a target and what is in their registers: of a stopped process by ptrace, of a core
 * by its notes.
 */
#ifndef SA_TOOL_TARGET_THREADS_H
#define SA_TOOL_TARGET_THREADS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct sa_target_stop; /* tool/target/stop.h */

#define SA_RED_ZONE 128 /* bytes below the stack pointer that a function may use */

struct sa_threads {
    struct sa_target_thread {
        pid_t tid;
        uint64_t sp;      /* the stack pointer */
        uint64_t pointer; /* the thread pointer; 0: not known */
    } * threads;
    size_t count, cap;
    /* The registers of all threads, as words. */
    struct sa_register_words {
        uint64_t *words;
        size_t count, cap;
    } general, vectors;
};

/* Adds what a note of a core says, if it is about registers. False: no memory. */
bool sa_threads_add_note(struct sa_threads *t, uint32_t type, const void *note, size_t bytes);

/* Reads the registers of a stopped process. False: no memory. */
bool sa_threads_read(const struct sa_target_stop *stop, struct sa_threads *ret);

void sa_threads_free(struct sa_threads *t);

#endif
