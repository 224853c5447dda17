/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What makes a program with a seed (SALLOC_CONF) come to the same samples each time: how long a
 * countdown is depends on the clock, and which samples are guarded on addresses of code. For one
 * source file of a program.
 */
#ifndef SA_TEST_SAME_H
#define SA_TEST_SAME_H

#include "test/outside/check.h"

#include <elf.h>
#include <sys/auxv.h>
#include <sys/personality.h>

static uint64_t same_now_ns = 1000000000; /* the clock: whoever has the turn */
static bool same_clock_asked;

static long same_clock(clockid_t id, struct timespec *ret)
{
    (void)id;
    same_clock_asked = true;
    *ret = (struct timespec){(time_t)(same_now_ns / 1000000000), (long)(same_now_ns % 1000000000)};
    return 0;
}

/* A vDSO with one function. Addresses in it are relative to its start. */
static struct {
    Elf64_Ehdr header;
    Elf64_Phdr segments[2];
    Elf64_Dyn dynamic[4];
    Elf64_Sym symbols[2];
    uint32_t hash[2]; /* no more of the table is read than how many symbols there are */
    char names[32];
} same_vdso = {
    .header = {.e_ident = ELFMAG, .e_phoff = sizeof(Elf64_Ehdr), .e_phnum = 2},
    .segments = {{.p_type = PT_LOAD}, {.p_type = PT_DYNAMIC}},
    .symbols[1] = {.st_name = 1, .st_shndx = 1},
    .hash = {0, 2},
#if defined(__x86_64__)
    .names = "\0__vdso_clock_gettime",
#else
    .names = "\0__kernel_clock_gettime",
#endif
};

unsigned long __getauxval(unsigned long type);

/* The library finds this before libc's, as the program exports it, and the clock in the vDSO that
 * it is told of. */
__attribute__((visibility("default"))) unsigned long getauxval(unsigned long type)
{
    uintptr_t base = (uintptr_t)&same_vdso;

    if (type != AT_SYSINFO_EHDR)
        return __getauxval(type);
    same_vdso.segments[1].p_offset = (uintptr_t)same_vdso.dynamic - base;
    same_vdso.dynamic[0] = (Elf64_Dyn){DT_SYMTAB, {(uintptr_t)same_vdso.symbols - base}};
    same_vdso.dynamic[1] = (Elf64_Dyn){DT_STRTAB, {(uintptr_t)same_vdso.names - base}};
    same_vdso.dynamic[2] = (Elf64_Dyn){DT_HASH, {(uintptr_t)same_vdso.hash - base}};
    same_vdso.symbols[1].st_value = (uintptr_t)same_clock - base;
    return base;
}

/* Starts the program again with its files at the same addresses each time, where the kernel lets
 * it. First in main. */
static void same_addresses(char **argv)
{
    int now = personality(0xffffffff);

    if (now == -1 || now & ADDR_NO_RANDOMIZE || personality(now | ADDR_NO_RANDOMIZE) == -1)
        return;
    execv("/proc/self/exe", argv);
    REQUIRE(!"execv");
}

#endif
