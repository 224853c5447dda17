/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a command behind a filter that allows the calls of systemd's @system-service
 * (system_service.list), as a service manager does. At any other call the kernel ends the process.
 *
 * usage: lock_in COMMAND [ARGUMENT ...]
 *        lock_in --write    writes the filter to stdout, as bubblewrap reads it
 *
 * The command gets the library of the variable LOCKED_PRELOAD in LD_PRELOAD; this program runs
 * without. Status 77: the kernel has no filters for this user.
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SECCOMP_RET_KILL_PROCESS
#define SECCOMP_RET_KILL_PROCESS 0x80000000u
#endif

#if defined(__x86_64__)
#define ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#else
#error "no filter for this architecture"
#endif

static const unsigned allowed[] = {
#include SYSTEM_SERVICE /* names.py makes it of system_service.list */
};

enum { CALLS = sizeof(allowed) / sizeof(allowed[0]), STATEMENTS = 4 + 2 * CALLS + 1 };

static void make(struct sock_filter *f)
{
    *f++ =
        (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch));
    *f++ = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCHITECTURE, 1, 0);
    *f++ = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    *f++ =
        (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (int i = 0; i < CALLS; i++) {
        *f++ = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, allowed[i], 0, 1);
        *f++ = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    }
    *f = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
}

int main(int argc, char **argv)
{
    static struct sock_filter filter[STATEMENTS];
    struct sock_fprog program = {STATEMENTS, filter};
    const char *preload = getenv("LOCKED_PRELOAD");

    make(filter);
    if (argc == 2 && strcmp(argv[1], "--write") == 0)
        return write(STDOUT_FILENO, filter, sizeof(filter)) != sizeof(filter);
    if (argc < 2)
        return 2;
    if (preload && setenv("LD_PRELOAD", preload, 1) != 0)
        return 1;
    unsetenv("LOCKED_PRELOAD");
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
        fprintf(stderr, "lock_in: %s\n", strerror(errno));
        return 77;
    }
    execvp(argv[1], argv + 1);
    fprintf(stderr, "lock_in: %s: %s\n", argv[1], strerror(errno));
    return 127;
}
