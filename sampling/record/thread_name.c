/* SPDX-License-Identifier: Apache-2.0 */
/* Names of threads; see thread_name.h. No state. */
#include "sampling/record/thread_name.h"

#include "alloc/base/fatal.h"
#include "alloc/base/fmt.h"
#include "alloc/base/utf8.h"
#include "alloc/os/sys.h"
#include "sampling/profile/profile.h"

#include <string.h>

/* The name of a thread of this process. */
static void thread_name(uint32_t tid, char ret[SA_THREAD_NAME_BYTES])
{
    char path[SA_THREAD_NAME_BYTES];
    struct sa_fmt f;
    long n;

    sa_fmt_init(&f, path, sizeof(path));
    sa_fmt_add(&f, "/proc/self/task/%u/comm", tid);
    SA_DCHECK(!f.truncated);
    n = sa_sys_read_file(path, ret, SA_THREAD_NAME_BYTES);
    if (n > 0 && ret[n - 1] == '\n')
        ret[--n] = '\0';
    if (n > 0) {
        sa_utf8_clean(ret, strlen(ret));
        return;
    }
    sa_fmt_init(&f, ret, SA_THREAD_NAME_BYTES);
    sa_fmt_add(&f, "%u", tid);
}

void sa_thread_name_in(const struct sa_profile_origin *origin, uint32_t tid,
                       char ret[SA_THREAD_NAME_BYTES])
{
    if (origin)
        origin->thread_name(origin, tid, ret, SA_THREAD_NAME_BYTES);
    else
        thread_name(tid, ret);
}
