/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a profile made by hand: TYPE PATH ... */
#include "alloc/os/vm.h"
#include "sampling/export/write.h"
#include "test/support/made_profile.h"

#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    int type = argc > 1 ? atoi(argv[1]) : -1;

    if (type < 0 || type > SALLOC_PROFILE_LIFETIMES)
        return 2;
    sa_vm_init();
    for (int i = 2; i < argc; i++) {
        int failed = sa_profile_write_file(made_profile(type), argv[i]);

        if (failed) {
            fprintf(stderr, "%s: %d\n", argv[i], failed);
            return 1;
        }
    }
    return 0;
}
