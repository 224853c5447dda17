/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory while the gate is closed (see gate.h): blocks carved from a mapping by an atomic add, frees
 * put on a list. Rarely used, never reused: a block's memory goes back with its mapping, which is
 * never. What matters is that it needs no lock.
 */
#ifndef SA_FRONT_EMERGENCY_H
#define SA_FRONT_EMERGENCY_H

#include "alloc/base/attrs.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Zeroed; NULL when out of memory. */
void *sa_emergency_alloc(size_t size, size_t align);

/* Whether a block is one of these; then *ret_size is its size. */
bool sa_emergency_owns(const void *p, size_t *ret_size);

/* Puts a block of the ordinary heap aside; sa_emergency_take returns those, once, linked by
 * their first word. */
void sa_emergency_put_aside(void *p);
void *sa_emergency_take(void);

/* In a child of fork: what other threads put aside is theirs no more, and stays allocated. */
void sa_emergency_after_fork(void);

#endif
