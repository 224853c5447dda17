/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing paths; see unwind_path.h. A process that is forked while another thread writes one never uses it
 * again.
 */
#include "sampling/unwind_path.h"

struct sa_path sa_paths[1 << SA_PATH_BITS];

void sa_path_set(struct sa_path *path, const struct sa_path_made *made)
{
    uint32_t sequence = sa_load_relaxed(&path->sequence);

    if (sequence % 2 || !sa_cas_acquire(&path->sequence, &sequence, sequence + 1))
        return;
    /* Who sees any of the stores below sees the one above, too. */
    __atomic_thread_fence(__ATOMIC_RELEASE);
    for (uint32_t i = 0; i < made->count; i++) {
        sa_store_relaxed(&path->step[i].pc, made->step[i].pc);
        sa_store_relaxed(&path->step[i].rule, made->step[i].rule);
    }
    sa_store_relaxed(&path->count, made->count);
    sa_store_relaxed(&path->left, 0);
    sa_store_release(&path->sequence, sequence + 2);
}
