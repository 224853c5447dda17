/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of include/salloc/profile.h about single events: hooks of samples, and the start of
 * an event trace. Their contracts are there. No variables. */
#include "alloc/api/init.h"
#include "alloc/base/attrs.h"
#include "alloc/fork/fork_gate.h"
#include "include/salloc/profile.h"
#include "sampling/record/live_samples.h"
#include "sampling/record/sample_hooks.h"

#include <errno.h>

SA_EXPORT int
salloc_add_sample_hook(void (*hook)(const struct salloc_sample_event *event, void *arg), void *arg)
{
    sa_init();
    if (!hook || !sa_sample_hooks_add(hook, arg)) {
        errno = hook ? EAGAIN : EINVAL;
        return -1;
    }
    return 0;
}

SA_EXPORT int salloc_remove_sample_hook(void (*hook)(const struct salloc_sample_event *event,
                                                     void *arg),
                                        void *arg)
{
    sa_init();
    if (!hook || !sa_sample_hooks_remove(hook, arg)) {
        errno = ENOENT;
        return -1;
    }
    return 0;
}

SA_EXPORT salloc_profile_token *salloc_start_event_trace(size_t max_bytes)
{
    int saved = errno;
    uint64_t handle = 0;
    struct sa_event_ring ring;

    if (!max_bytes) {
        errno = EINVAL;
        return NULL;
    }
    sa_init();
    if (sa_fork_gate_enter()) {
        if (sa_event_ring_open(&ring, max_bytes)) {
            handle = sa_live_start_events(&ring);
            if (!handle)
                sa_event_ring_close(&ring);
        }
        sa_fork_gate_leave();
    }
    errno = handle ? saved : EAGAIN;
    return (salloc_profile_token *)(uintptr_t)handle;
}

SA_EXPORT int salloc_profile_iterate_events(const salloc_profile *profile,
                                            int (*callback)(const struct salloc_sample_event *event,
                                                            void *arg),
                                            void *arg)
{
    const struct sa_profile *p = (const struct sa_profile *)profile;
    struct salloc_sample_event event;
    int stop = 0;

    if (!p || !callback || p->type != SALLOC_PROFILE_EVENTS) {
        errno = EINVAL;
        return -1;
    }
    for (size_t i = 0; !stop && i < sa_event_ring_count(&p->events); i++) {
        sa_profile_event(p, i, &event);
        stop = callback(&event, arg);
    }
    return stop;
}
