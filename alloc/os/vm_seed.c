/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The seed of what is placed at random, and words for secrets. Start-up writes sa_vm.seed and
 * sa_vm.alike, before other threads read them.
 */
#include "alloc/base/bits.h"
#include "alloc/base/rng.h"
#include "alloc/os/filter.h"
#include "alloc/os/sys.h"
#include "alloc/os/vm.h"

#include <string.h>
#include <sys/auxv.h>

#define TOP_BYTES 65536

/*
 * Whether the kernel places this process at the same addresses each time, as under a debugger
 * (ADDR_NO_RANDOMIZE, or kernel.randomize_va_space=0). The name of the program then lies right
 * below the end of user addresses, a power of two. A random stack puts it there once in 2^18
 * starts. Asking for the personality would be one more system call.
 */
static bool is_placed_alike(void)
{
    uintptr_t top = sa_align_up(getauxval(AT_EXECFN), TOP_BYTES);

    return top && (top & (top - 1)) == 0;
}

void sa_vm_init_seed(void)
{
    const void *random = (const void *)getauxval(AT_RANDOM);
    uint64_t words[2] = {0, 0};

    sa_vm.alike = is_placed_alike();
    if (random && !sa_vm.alike) /* libc's secrets are made of these bytes: mix them, so that the
                                   seed hides them */
        memcpy(words, random, sizeof(words));
    sa_vm.seed = sa_rng_mix(words[0] ^ (words[1] + 1) * SA_RNG_STEP);
}

SA_RARE void sa_vm_set_seed(uint64_t seed)
{
    sa_vm.alike = true;
    sa_vm.seed = sa_rng_mix(seed);
}

SA_RARE uint64_t sa_vm_policy_step(uint64_t step_ns)
{
    static uint64_t steps_ns; /* atomic, relaxed */

    return sa_add_relaxed(&steps_ns, step_ns) + step_ns;
}

SA_RARE void sa_vm_secret(uint64_t *ret, unsigned count)
{
    uint64_t at = sa_vm.seed;

    /* Where the kernel has no random numbers, or must not be asked: those of the process's
     * start. */
    memset(ret, 0, count * sizeof(*ret));
    if (!sa_filtered() && !sa_vm.alike)
        sa_sys_random(ret, count * sizeof(*ret));
    for (unsigned i = 0; i < count; i++)
        ret[i] ^= sa_rng_next(&at);
}
