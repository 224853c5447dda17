/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of include/salloc/profile.h about single events: hooks of samples. Their contracts
 * are there. No variables. */
#include "alloc/api/init.h"
#include "alloc/base/attrs.h"
#include "include/salloc/profile.h"
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
