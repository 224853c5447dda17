/* SPDX-License-Identifier: Apache-2.0 */
/* Address space; see vm.h. */
#include "alloc/os/vm.h"

#include "alloc/base/atomic.h"
#include "alloc/base/rng.h"
#include "alloc/os/sys.h"

#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

struct sa_vm sa_vm;

void sa_vm_init(void)
{
    const void *random = (const void *)getauxval(AT_RANDOM);
    uint64_t words[2] = {0, 0};

    sa_vm.page_bytes = getauxval(AT_PAGESZ);
    if (!sa_vm.page_bytes)
        sa_vm.page_bytes = 4096;
    if (random) /* libc uses these bytes for its own secrets: mix, so that ours tell nothing */
        memcpy(words, random, sizeof(words));
    sa_vm.seed = sa_rng_mix(words[0] ^ sa_rng_mix(words[1] + SA_RNG_STEP));
}

void *sa_vm_map(void *hint, size_t bytes, const char *name)
{
    void *p = sa_sys_mmap(hint, bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE);

    if (!p) {
        sa_add_relaxed(&sa_vm.map_failures, 1);
        return NULL;
    }
    sa_sys_name_mapping(p, bytes, name);
    return p;
}

void sa_vm_unmap(void *p, size_t bytes)
{
    sa_sys_munmap(p, bytes);
}

bool sa_vm_release(void *p, size_t bytes)
{
    if (sa_sys_madvise(p, bytes, MADV_DONTNEED) == 0)
        return true;
    sa_add_relaxed(&sa_vm.advise_failures, 1);
    return false;
}

void sa_vm_no_hugepages(void *p, size_t bytes)
{
    sa_sys_madvise(p, bytes, MADV_NOHUGEPAGE);
}

bool sa_vm_renew(void *p, size_t bytes, const char *name)
{
    if (sa_sys_mmap(p, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED) != p)
        return false;
    sa_sys_name_mapping(p, bytes, name);
    return true;
}

bool sa_vm_move(void *from, void *to, size_t bytes)
{
    return sa_sys_mremap(from, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP,
                         to) == to;
}
