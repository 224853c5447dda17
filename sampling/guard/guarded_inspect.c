/* SPDX-License-Identifier: Apache-2.0 */
/* The checks of what lies beside guarded blocks in use: of one, and of all; see guarded.h. */
#include "alloc/base/fatal.h"
#include "alloc/os/cpu_relax.h"
#include "alloc/os/thread.h"
#include "sampling/guard/guarded_slots.h"
#include "sampling/guard/misuse.h"

/*
 * A block is freed while sa_guarded_inspect reads it: this waits for the inspection. In a signal
 * handler on the thread that inspects, that wait would never end, and the pages must stay
 * accessible. The slot becomes LOST then.
 */
bool sa_slot_claim_checked(struct slot *slot)
{
    uint8_t state;

    for (;;) {
        state = STATE_LIVE;
        if (sa_cas_acquire(&slot->state, &state, STATE_BUSY))
            return true;
        if (state != STATE_CHECKED)
            return false;
        if (sa_thread.sampling)
            return sa_cas_acquire(&slot->state, &state, STATE_LOST);
        sa_cpu_relax();
    }
}

void sa_slot_check(const struct slot *slot, bool live)
{
    struct sa_lookup found;
    uintptr_t damage = sa_slot_damage(slot, &found);

    if (SA_UNLIKELY(damage))
        sa_misuse_damage(damage, &found, live);
}

static void slot_inspect(struct slot *slot)
{
    uint8_t state = STATE_LIVE;

    if (!sa_cas_acquire(&slot->state, &state, STATE_CHECKED))
        return;
    sa_slot_check(slot, true);
    SA_DCHECK(sa_load_relaxed(&slot->state) == STATE_CHECKED ||
              sa_load_relaxed(&slot->state) == STATE_LOST);
    state = STATE_CHECKED;
    /* Release: the thread that frees the block next writes its history after it was read here. */
    sa_cas_release(&slot->state, &state, STATE_LIVE);
}

void sa_guarded_inspect(void)
{
    /* A signal handler on this thread that frees a CHECKED slot recognises the inspection by
     * sa_thread.sampling. */
    if (sa_thread.sampling)
        return;
    sa_thread.sampling = 1;
    for (size_t i = 0; i < POOLS; i++) {
        struct pool *pool = &sa_guarded.pool[i];
        struct slot *slots = sa_load_acquire(&pool->slots);

        for (size_t at = 0; slots && at < sa_load_acquire(&pool->used); at++)
            slot_inspect(&slots[at]);
    }
    sa_thread.sampling = 0;
}
