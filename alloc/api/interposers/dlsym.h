/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dlsym and dlvsym, exported so that a program that looks a function of libc's up by name gets the
 * function that calls by the linker end in.
 *
 * Foreign function interfaces look malloc and free up in a handle of libc, and a library that wants
 * a version calls dlvsym, which passes this library over. Their pointers would cross allocators.
 * Wherever the answer would be a function of the process's libc that this library exports as well,
 * the answer is this library's. The rules:
 *
 *   - The lookup itself is libc's, with its errors.
 *   - Lookups by RTLD_NEXT and RTLD_DEFAULT depend on the caller, which libc takes from the return
 *     address. So dlsym and dlvsym jump to libc's with that address kept, unless the answer is
 *     known to be this library's.
 *   - An interposer before this library gets this library's function by RTLD_NEXT, as for any
 *     other name, with or without a version.
 *   - An interposer behind this library gets libc's, for functions that this library passes on to
 *     interposers (SA_PASSED_ON), and for all others this library's. So no call comes back here.
 *   - By a handle the program gets the variant that goes on to libc itself (sa_direct_NAME), as
 *     libc's function calls no interposer either.
 *   - A copy that is not before libc since the start (sa_loader_own) answers nothing.
 *   - dlsym and dlvsym go on to an interposer behind this library before anything else.
 *
 * No object other than this library is written to. No variables but caches of lookups.
 */
#ifndef SA_API_INTERPOSERS_DLSYM_H
#define SA_API_INTERPOSERS_DLSYM_H

#include "alloc/base/attrs.h"

#include <stddef.h>

/* The functions that go on to an interposer behind this library. Each has a variant that goes on to
 * libc. */
/* The archive has neither of the two: a static program has no second one. */
#ifdef SA_STATIC
#define SA_PASSED_ON_DYNAMIC(WITH)
#else
#define SA_PASSED_ON_DYNAMIC(WITH) WITH(dlmopen) WITH(dlclose)
#endif
/* An architecture without entries in dlsym.c keeps libc's functions. */
#if defined(__x86_64__) || defined(__aarch64__)
#define SA_PASSED_ON_DLSYM(WITH) WITH(dlsym) WITH(dlvsym)
#else
#define SA_PASSED_ON_DLSYM(WITH)
#endif
/* syscall_entry.c has none for the sanitizers either, which replace the calls that it notes. */
#if !SA_ASAN && !SA_TSAN && (defined(__x86_64__) || defined(__aarch64__))
#define SA_SYSCALL_ENTRY           1
#define SA_PASSED_ON_SYSCALL(WITH) WITH(syscall)
#else
#define SA_SYSCALL_ENTRY 0
#define SA_PASSED_ON_SYSCALL(WITH)
#endif
#define SA_PASSED_ON(WITH)                                                                         \
    SA_PASSED_ON_DYNAMIC(WITH)                                                                     \
    SA_PASSED_ON_DLSYM(WITH)                                                                       \
    SA_PASSED_ON_SYSCALL(WITH)                                                                     \
    WITH(dlopen)                                                                                   \
    WITH(prctl)                                                                                    \
    WITH(madvise)                                                                                  \
    WITH(mprotect)                                                                                 \
    WITH(pkey_mprotect)                                                                            \
    WITH(mlock)                                                                                    \
    WITH(mlock2)                                                                                   \
    WITH(mbind)                                                                                    \
    WITH(clone)

extern void *sa_direct_dlsym(void *handle, const char *name) SA_HIDDEN;
extern void *sa_direct_dlvsym(void *handle, const char *name, const char *version) SA_HIDDEN;
extern void *sa_direct_dlopen(const char *path, int flags) SA_HIDDEN;
extern void *sa_direct_dlmopen(long space, const char *path, int flags) SA_HIDDEN;
extern int sa_direct_dlclose(void *handle) SA_HIDDEN;
extern int sa_direct_prctl(int option, ...) SA_HIDDEN;
extern int sa_direct_madvise(void *p, size_t bytes, int advice) SA_HIDDEN;
extern int sa_direct_mprotect(void *p, size_t bytes, int access) SA_HIDDEN;
extern int sa_direct_pkey_mprotect(void *p, size_t bytes, int access, int key) SA_HIDDEN;
extern int sa_direct_mlock(const void *p, size_t bytes) SA_HIDDEN;
extern int sa_direct_mlock2(const void *p, size_t bytes, unsigned flags) SA_HIDDEN;
extern long sa_direct_mbind(void *p, unsigned long bytes, int mode, const unsigned long *nodes,
                            unsigned long max, unsigned flags) SA_HIDDEN;
extern long sa_direct_syscall(long number, ...) SA_HIDDEN;
extern int sa_direct_clone(int (*function)(void *), void *stack, int flags, void *arg,
                           ...) SA_HIDDEN;

#endif
