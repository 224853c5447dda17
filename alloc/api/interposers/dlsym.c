/* SPDX-License-Identifier: Apache-2.0 */
/* Answers lookups by name; see dlsym.h. */
#include "alloc/api/interposers/dlsym.h"

#include "alloc/base/atomic.h"
#include "alloc/os/loader.h"
#include "sampling/stack/loaded_object.h"

#include <dlfcn.h>
#include <link.h>
#include <stdbool.h>
#include <string.h>

/* libc's functions in a static program. */
extern void *__dlsym(void *handle, const char *name) SA_WEAK;
extern void *__dlvsym(void *handle, const char *name, const char *version) SA_WEAK;

/* What the assembly below does: jumps to a function with the arguments and the return address that
 * it was called with, or returns the result if there is none. */
struct answer {
    void *jump, *result;
};

/* The assembly calls these. version: NULL in dlsym. caller: the return address. */
SA_HIDDEN struct answer sa_dlsym_enter(void *handle, const char *name, const char *version,
                                       const void *caller) __attribute__((used));
SA_HIDDEN struct answer sa_dlsym_enter_direct(void *handle, const char *name, const char *version,
                                              const void *caller) __attribute__((used));

/*
 * The contract of an architecture. ENTRY(name, visibility, kind, choose) defines a function of the
 * type of `kind`, dlsym or dlvsym. The function calls choose(handle, name, version or NULL, return
 * address) and then acts on the answer. Before a jump the stack, the arguments and the return
 * address are as at its entry. Directives describe its frame to unwinders. Registers that calls
 * preserve are not written.
 */
#if defined(__x86_64__)
#define VERSION_dlsym  "xorl %edx,%edx\n\t"
#define VERSION_dlvsym ""
#define ENTRY(name, visibility, kind, choose)                                                      \
    __asm__(".pushsection .text.unlikely.rare,\"ax\",@progbits\n\t"                                \
            ".balign 16\n\t"                                                                       \
            ".globl " #name "\n\t" visibility ".type " #name ",@function\n" #name ":\n\t"          \
            ".cfi_startproc\n\t"                                                                   \
            "endbr64\n\t"                                                                          \
            "movq (%rsp),%rcx\n\t"                                                                 \
            "pushq %rdi\n\t"                                                                       \
            ".cfi_adjust_cfa_offset 8\n\t"                                                         \
            "pushq %rsi\n\t"                                                                       \
            ".cfi_adjust_cfa_offset 8\n\t"                                                         \
            "pushq %rdx\n\t"                                                                       \
            ".cfi_adjust_cfa_offset 8\n\t" VERSION_##kind "call " #choose "\n\t"                   \
                                                          "movq %rax,%r11\n\t"                     \
                                                          "movq %rdx,%rax\n\t"                     \
                                                          "popq %rdx\n\t"                          \
                                                          ".cfi_adjust_cfa_offset -8\n\t"          \
                                                          "popq %rsi\n\t"                          \
                                                          ".cfi_adjust_cfa_offset -8\n\t"          \
                                                          "popq %rdi\n\t"                          \
                                                          ".cfi_adjust_cfa_offset -8\n\t"          \
                                                          "testq %r11,%r11\n\t"                    \
                                                          "jz 1f\n\t"                              \
                                                          "jmp *%r11\n"                            \
                                                          "1: ret\n\t"                             \
                                                          ".cfi_endproc\n\t"                       \
                                                          ".size " #name ",.-" #name "\n\t"        \
                                                          ".popsection")
#elif defined(__aarch64__)
#define VERSION_dlsym  "mov x2,#0\n\t"
#define VERSION_dlvsym ""
#define ENTRY(name, visibility, kind, choose)                                                      \
    __asm__(".pushsection .text.unlikely.rare,\"ax\",%progbits\n\t"                                \
            ".balign 16\n\t"                                                                       \
            ".globl " #name "\n\t" visibility ".type " #name ",%function\n" #name ":\n\t"          \
            ".cfi_startproc\n\t"                                                                   \
            "hint #34\n\t" /* bti c */                                                             \
            "stp x29,x30,[sp,#-48]!\n\t"                                                           \
            ".cfi_def_cfa_offset 48\n\t"                                                           \
            ".cfi_offset x29,-48\n\t"                                                              \
            ".cfi_offset x30,-40\n\t"                                                              \
            "stp x0,x1,[sp,#16]\n\t"                                                               \
            "str x2,[sp,#32]\n\t"                                                                  \
            "mov x3,x30\n\t" VERSION_##kind "bl " #choose "\n\t"                                   \
                                            "mov x16,x0\n\t"                                       \
                                            "mov x17,x1\n\t"                                       \
                                            "ldp x0,x1,[sp,#16]\n\t"                               \
                                            "ldr x2,[sp,#32]\n\t"                                  \
                                            "ldp x29,x30,[sp],#48\n\t"                             \
                                            ".cfi_restore x29\n\t"                                 \
                                            ".cfi_restore x30\n\t"                                 \
                                            ".cfi_def_cfa_offset 0\n\t"                            \
                                            "cbz x16,1f\n\t"                                       \
                                            "br x16\n"                                             \
                                            "1: mov x0,x17\n\t"                                    \
                                            "ret\n\t"                                              \
                                            ".cfi_endproc\n\t"                                     \
                                            ".size " #name ",.-" #name "\n\t"                      \
                                            ".popsection")
#endif

#ifdef ENTRY
ENTRY(dlsym, "", dlsym, sa_dlsym_enter);
ENTRY(dlvsym, "", dlvsym, sa_dlsym_enter);
ENTRY(sa_direct_dlsym, ".hidden sa_direct_dlsym\n\t", dlsym, sa_dlsym_enter_direct);
ENTRY(sa_direct_dlvsym, ".hidden sa_direct_dlvsym\n\t", dlvsym, sa_dlsym_enter_direct);
#endif

typedef void *(*dlsym_function)(void *, const char *);
typedef void *(*dlvsym_function)(void *, const char *, const char *);

/* Atomic, relaxed: every thread stores the same. */
static dlsym_function libc_dlsym;
static dlvsym_function libc_dlvsym;
static void *interposer, *interposer_versioned; /* sa_loader_interposer */

/* Finds libc's two functions, which are NULL where there are none. */
static void find_libc_functions(void)
{
    dlsym_function f = (dlsym_function)sa_loader_libc_function("dlsym", NULL);
    dlvsym_function v = (dlvsym_function)sa_loader_libc_function("dlvsym", NULL);

    sa_store_relaxed(&libc_dlvsym, v ? v : __dlvsym);
    sa_store_relaxed(&libc_dlsym, f ? f : __dlsym);
}

/* Lets libc answer, for the caller. */
static struct answer by_libc(const char *version)
{
    if (!sa_load_relaxed(&libc_dlsym) || !sa_load_relaxed(&libc_dlvsym))
        find_libc_functions();
    return (struct answer){version ? (void *)sa_load_relaxed(&libc_dlvsym)
                                   : (void *)sa_load_relaxed(&libc_dlsym),
                           NULL};
}

/* Asks libc about a handle. Callers do not matter there. */
static void *look_up(void *handle, const char *name, const char *version)
{
    void *f = by_libc(version).jump;

    if (!f)
        return NULL;
    return version ? ((dlvsym_function)f)(handle, name, version)
                   : ((dlsym_function)f)(handle, name);
}

#define DIRECT(name)                                                                               \
    if (strcmp(wanted, #name) == 0)                                                                \
        return (void *)sa_direct_##name;

/* What stands for libc's function where no interposer may be called. own: what the name means
 * everywhere else. */
static void *direct(const char *wanted, void *own)
{
    SA_PASSED_ON(DIRECT)
    return own;
}

enum place {
    BEFORE, /* this library, in the search of the start: the program, and interposers */
    BEHIND, /* between this library and libc */
    OTHER,  /* behind libc, loaded later, or in another namespace */
};

static enum place place_of(const struct link_map *wanted)
{
    enum place place = BEFORE;

    for (const struct link_map *map = sa_loader_first(); map != sa_loader_libc();
         map = map->l_next) {
        if (map == wanted)
            return place;
        if (map == sa_loader_own())
            place = BEHIND;
    }
    return OTHER;
}

/*
 * Answers RTLD_NEXT, and RTLD_DEFAULT with a version. The walk is libc's search, in which this
 * library has every version that libc has. A caller that is no object of the start has a search of
 * its own: there libc says what the handle of the caller finds.
 *
 * own, libc: the definitions of this library and of libc, neither NULL.
 */
static struct answer by_caller(void *handle, const char *name, const char *version,
                               const void *caller, void *own, const void *libc)
{
    const struct link_map *map;
    struct sa_loaded_object object;
    enum place place;

    if (!sa_loaded_object_find((uintptr_t)caller, &object) || !object.map)
        return by_libc(version);
#ifndef SA_STATIC /* this library itself; in a program with the archive, the program asks */
    if (object.map == sa_loader_own())
        return by_libc(version);
#endif
    place = place_of(object.map);
    map = handle == RTLD_DEFAULT ? sa_loader_first() : place == OTHER ? NULL : object.map->l_next;
    for (; map && map != sa_loader_libc(); map = map->l_next) {
        if (map != sa_loader_own()) {
            if (sa_loader_definition(map, name, version))
                return by_libc(version);
        } else if (version) {
            break;
        } else {
            return by_libc(version);
        }
    }
    if (place == OTHER && look_up((void *)object.map, name, version) != libc)
        return by_libc(version);
    return (struct answer){NULL, place == BEFORE ? own : direct(name, own)};
}

struct answer sa_dlsym_enter_direct(void *handle, const char *name, const char *version,
                                    const void *caller)
{
    void *own, *libc, *found;

    if (!name || (handle == RTLD_DEFAULT && !version) || !sa_loader_relocated())
        return by_libc(version);
    own = sa_loader_definition(sa_loader_own(), name, NULL);
    libc = own ? sa_loader_libc_function(name, version) : NULL;
    if (!libc)
        return by_libc(version);
    if (handle == RTLD_NEXT || handle == RTLD_DEFAULT)
        return by_caller(handle, name, version, caller, own, libc);
    found = look_up(handle, name, version);
    return (struct answer){NULL, found == libc ? direct(name, own) : found};
}

struct answer sa_dlsym_enter(void *handle, const char *name, const char *version,
                             const void *caller)
{
    void *next = version ? sa_loader_interposer(&interposer_versioned, "dlvsym")
                         : sa_loader_interposer(&interposer, "dlsym");

    if (next)
        return (struct answer){next, NULL};
    return sa_dlsym_enter_direct(handle, name, version, caller);
}
