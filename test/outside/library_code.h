/* SPDX-License-Identifier: Apache-2.0 */
/* Where the library's code lies in this process, for filters of the system calls that it makes. */
#ifndef SA_TEST_OUTSIDE_LIBRARY_CODE_H
#define SA_TEST_OUTSIDE_LIBRARY_CODE_H

#include <link.h>
#include <stdint.h>
#include <string.h>

/* For dl_iterate_phdr, which returns 1 if the library is loaded. arg: uintptr_t[2], which get the
 * first byte and the end. */
static int library_code(struct dl_phdr_info *info, size_t size, void *arg)
{
    uintptr_t *range = arg;

    (void)size;
    if (!strstr(info->dlpi_name, "libsalloc"))
        return 0;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD && info->dlpi_phdr[i].p_flags & PF_X) {
            range[0] = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
            range[1] = range[0] + info->dlpi_phdr[i].p_memsz;
        }
    return 1;
}

#endif
