/* SPDX-License-Identifier: Apache-2.0 */
/* Compiler attributes, section attributes, and the constants that every layer shares. No state. */
#ifndef SA_BASE_ATTRS_H
#define SA_BASE_ATTRS_H

#define SA_LIKELY(x)   __builtin_expect(!!(x), 1)
#define SA_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define SA_INLINE      static inline __attribute__((always_inline))
#define SA_NOINLINE    __attribute__((noinline))
#define SA_COLD        __attribute__((noinline, cold))
#define SA_NORETURN    __attribute__((noreturn))
#define SA_EXPORT      __attribute__((visibility("default")))
/* For declarations as well: -fvisibility=hidden covers definitions only. Without the attribute,
 * aarch64 code reads the address of an external variable from the GOT. */
#define SA_HIDDEN __attribute__((visibility("hidden")))
#define SA_WEAK   __attribute__((weak))

#define SA_TEXT(name)  SA_TEXT_(name)
#define SA_TEXT_(name) #name

/* Declares a second, hidden name of an exported function. Calls by that name reach the library's
 * own function, whatever the loader finds for the exported name. */
#if defined(__has_attribute) && __has_attribute(copy)
#define SA_OWN_NAME_OF(function) SA_HIDDEN __attribute__((alias(SA_TEXT(function)), copy(function)))
#else
#define SA_OWN_NAME_OF(function) SA_HIDDEN __attribute__((alias(SA_TEXT(function))))
#endif

/*
 * For code that every process runs at start and variables that it writes then, even if it never
 * allocates. The code lies beside the symbol table, and the variables lie beside the relocated
 * ones, on pages that the loader has touched. Small variables that the first allocation writes are
 * there as well, and those that a child of fork reads or writes: the child copies each page that it
 * writes.
 */
#define SA_START_CODE __attribute__((noinline, section(".text.startup")))
#define SA_START_DATA __attribute__((section(".data.start")))

/*
 * Section attributes that keep the resident pages of the code few. SA_RARE: a function that few
 * programs call, or that is called seldom, in a file that every program uses. The linker places it
 * beside the files that are cold as a whole (alloc/cold.ld). SA_ONCE: a function that most programs
 * call once, soon after the start.
 */
#define SA_RARE __attribute__((section(".text.unlikely.rare")))
#define SA_ONCE __attribute__((section(".text.startup.once")))

/* For the code of a child of fork, called by the handlers of fork in every child. The functions lie
 * together, because a child maps the code that it runs anew. */
#define SA_FORK __attribute__((noinline, section(".text.unlikely.fork")))

/* Assumed size of a cache line. Only performance depends on this value. */
#define SA_CACHELINE 64

/*
 * Hides from the compiler how the value of a pointer or integer was computed. Every access through
 * a pointer then uses one register instead of a new PC-relative address, and the compiler
 * recognises no call of memset or memcpy in a loop.
 */
#define SA_OPAQUE(p) __asm__("" : "+r"(p))

/* SA_ASAN and SA_TSAN: 1 in a build with that sanitizer, otherwise 0. clang and gcc announce
 * sanitizers differently. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SA_ASAN 1
#elif __has_feature(thread_sanitizer)
#define SA_TSAN 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define SA_ASAN 1
#elif defined(__SANITIZE_THREAD__)
#define SA_TSAN 1
#endif
#ifndef SA_ASAN
#define SA_ASAN 0
#endif
#ifndef SA_TSAN
#define SA_TSAN 0
#endif

/*
 * For a function that reads, with plain loads, bytes that other threads may write at the same time,
 * because the range is too long for atomic accesses. The caller takes the result for a hint and
 * checks it again. ThreadSanitizer would report a race.
 */
#define SA_RACES __attribute__((no_sanitize("thread")))

#define SA_STATIC_ASSERT(c, msg) _Static_assert(c, msg)

#endif
