/* SPDX-License-Identifier: Apache-2.0 */
/* Threads and their registers; see threads.h. */
#include "tool/target/threads.h"

#include "tool/base/array.h"
#include "tool/target/stop.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/procfs.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

#define THREADS_MAX (1u << 20)
#define WORDS_FIRST 4096
#define SET_BYTES   16384 /* of a set of registers; those of all vectors have 11 KiB */

/* Which of the general registers are the stack pointer and the thread pointer; 0: it is none. */
#if defined(__x86_64__)
#define STACK_POINTER  19
#define THREAD_POINTER 21
#elif defined(__aarch64__)
#define STACK_POINTER  31
#define THREAD_POINTER 0
#endif

#ifndef NT_X86_XSTATE
#define NT_X86_XSTATE 0x202
#endif

static bool add_words(struct sa_register_words *r, const void *set, size_t bytes)
{
    size_t count = bytes / sizeof(*r->words);

    if (!sa_array_room(&r->words, &r->cap, r->count + count, sizeof(*r->words), WORDS_FIRST))
        return false;
    if (count)
        memcpy(r->words + r->count, set, count * sizeof(*r->words));
    r->count += count;
    return true;
}

static uint64_t word_of(const void *set, size_t bytes, size_t n)
{
    uint64_t word = 0;

    if (bytes >= (n + 1) * sizeof(word))
        memcpy(&word, (const char *)set + n * sizeof(word), sizeof(word));
    return word;
}

/* Adds a thread with its general registers. */
static bool add_thread(struct sa_threads *t, pid_t tid, const void *set, size_t bytes)
{
    struct sa_target_thread thread = {tid, word_of(set, bytes, STACK_POINTER),
                                      THREAD_POINTER ? word_of(set, bytes, THREAD_POINTER) : 0};

    if (t->count == THREADS_MAX)
        return true;
    if (!sa_array_room(&t->threads, &t->cap, t->count + 1, sizeof(*t->threads), 64))
        return false;
    t->threads[t->count++] = thread;
    return add_words(&t->general, set, bytes);
}

bool sa_threads_add_note(struct sa_threads *t, uint32_t type, const void *note, size_t bytes)
{
    struct elf_prstatus status;

    if (type == NT_PRSTATUS && bytes >= sizeof(status)) {
        memcpy(&status, note, sizeof(status));
        return add_thread(t, status.pr_pid, &status.pr_reg, sizeof(status.pr_reg));
    }
    return (type != NT_FPREGSET && type != NT_X86_XSTATE) || bytes > SET_BYTES ||
           add_words(&t->vectors, note, bytes);
}

/* One of the sets of a thread's registers; 0 bytes: it cannot be had. */
static size_t read_set(pid_t tid, uint32_t type, void *buffer)
{
    struct iovec set = {buffer, SET_BYTES};

    return ptrace(PTRACE_GETREGSET, tid, (void *)(uintptr_t)type, &set) == 0 ? set.iov_len : 0;
}

bool sa_threads_read(const struct sa_target_stop *stop, struct sa_threads *ret)
{
    char *buffer = malloc(SET_BYTES);
    bool fine = buffer != NULL;

    memset(ret, 0, sizeof(*ret));
    for (size_t i = 0; fine && i < stop->count; i++) {
        pid_t tid = stop->threads[i];

        fine = add_thread(ret, tid, buffer, read_set(tid, NT_PRSTATUS, buffer)) &&
               add_words(&ret->vectors, buffer, read_set(tid, NT_FPREGSET, buffer)) &&
               add_words(&ret->vectors, buffer, read_set(tid, NT_X86_XSTATE, buffer));
    }
    free(buffer);
    return fine;
}

void sa_threads_free(struct sa_threads *t)
{
    free(t->threads);
    free(t->general.words);
    free(t->vectors.words);
    memset(t, 0, sizeof(*t));
}
