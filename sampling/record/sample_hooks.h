/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hooks of samples: functions of the program that are called for each sample and for each free
 * of one (include/salloc/profile.h). A hook is called inside the fork gate, without a lock.
 *
 * Lock-free. A place of the table holds a function and its argument, which must not be read as a
 * mixture of two hooks. `turn` grows with each change of the place: by 1 to begin to write it, by 1
 * when it can be called, by 2 when it is removed. So turn % 4 is 0 (free), 1 (being written) or 2
 * (in use). A caller reads `turn` with acquire order, then function and argument, then `turn` once
 * more behind an acquire fence. If both are the same and mean "in use", no writer came between: one
 * would have changed `turn` before it wrote. Writers of a place exclude each other by the exchange
 * that takes it from free. A hook that is removed may still be called by a thread that has read it
 * before.
 */
#ifndef SA_SAMPLING_RECORD_SAMPLE_HOOKS_H
#define SA_SAMPLING_RECORD_SAMPLE_HOOKS_H

#include "include/salloc/profile.h"
#include "sampling/record/recording.h"

#include <stdbool.h>

#define SA_SAMPLE_HOOKS 8

typedef void sa_sample_hook(const struct salloc_sample_event *event, void *arg);

/* Adds a hook. False: SA_SAMPLE_HOOKS exist. */
bool sa_sample_hooks_add(sa_sample_hook *hook, void *arg);

/* Removes a hook that was added with this argument. False: there is none. */
bool sa_sample_hooks_remove(sa_sample_hook *hook, void *arg);

/*
 * Inside the gate: calls the hooks for a sample that was just added, or (freed) that is about to be
 * removed, whose record is the caller's. free_stack: NULL: not known. Does nothing without hooks:
 * callers ask sa_recordings_want_frees before, which costs a branch.
 */
void sa_sample_hooks_call(const struct sa_sample *sample, const struct sa_stack *free_stack,
                          bool freed);

#endif
