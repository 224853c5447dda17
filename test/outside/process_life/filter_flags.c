/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program behind a filter that ends it at any mmap with other flags than those of libc's malloc,
 * as vsftpd's does: it can allocate. usage: filter_flags MIB BYTES: so much, in blocks of so many
 * bytes
 */
#include "test/outside/check.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

int main(int argc, char **argv)
{
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[3])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, MAP_PRIVATE | MAP_ANONYMOUS, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof(rules) / sizeof(rules[0]), rules};
    size_t mib, bytes;

    REQUIRE(argc == 3);
    mib = strtoul(argv[1], NULL, 10);
    bytes = strtoul(argv[2], NULL, 10);
    free(malloc(100));
    REQUIRE(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    REQUIRE(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
    for (size_t i = 0; i < (mib << 20) / bytes; i++) {
        char *p = malloc(bytes);

        REQUIRE(p != NULL);
        *p = 1;
    }
    return check_end();
}
