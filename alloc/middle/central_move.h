/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects that would do better on another span: for programs that can move what they keep.
 *
 * A span goes back to the page heap when none of its objects is in use. Objects of a sparse span
 * fit into the holes of fuller ones. What is asked about is a hint, read without a lock; what is
 * done holds the lock of the class (CENTRAL).
 */
#ifndef SA_MIDDLE_CENTRAL_MOVE_H
#define SA_MIDDLE_CENTRAL_MOVE_H

#include "alloc/os/lock.h"
#include "pagemap/span.h"

#include <stdbool.h>
#include <stddef.h>

/*
 * Returns whether an object of a class, on a span of the class, would do better elsewhere: at most
 * the mean part of its span is in use, and what is in use there fits into the holes of other spans
 * of the class. Safe for a stale span record. For mixed spans: sa_mixed_is_sparse.
 */
bool sa_central_worth_moving(const struct sa_span *span, unsigned cls);

/*
 * Takes a free object of the class on a fuller span than the one that an object, which the caller
 * owns, lies on. Never takes a new span. NULL: there is none.
 */
void *sa_central_take_better(unsigned cls, const void *object) SA_EXCLUDES(SA_RANK_CENTRAL);

#endif
