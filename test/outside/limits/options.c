/* SPDX-License-Identifier: Apache-2.0 */
/* Says what the limits are: "SOFT HARD", 0 for none. options.py starts it with options. */
#include "include/salloc/salloc.h"
#include "test/outside/check.h"

int main(void)
{
    size_t (*get_limit)(enum salloc_memory_limit) =
        (size_t(*)(enum salloc_memory_limit))dlsym(RTLD_DEFAULT, "salloc_get_memory_limit");
    size_t soft, hard;

    check_begin();
    REQUIRE(get_limit);
    soft = get_limit(SALLOC_SOFT_LIMIT);
    hard = get_limit(SALLOC_HARD_LIMIT);
    check_say("%zu %zu", soft == SALLOC_NO_LIMIT ? 0 : soft, hard == SALLOC_NO_LIMIT ? 0 : hard);
    return 0;
}
