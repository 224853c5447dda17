/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lock annotations that clang checks at compile time (-Wthread-safety); empty for gcc. CI builds
 * with clang and -Werror, so that a field that is read without its lock does not build.
 *
 * The capability is the rank of a lock (alloc/os/lock_ranks.def) instead of the lock: a thread
 * never holds two locks of one rank, and an attribute of C cannot name another member of its
 * struct. The analysis does not tell two locks of one rank apart. `rank` is any expression of type
 * enum sa_lock_rank.
 *
 *   struct list {
 *       struct sa_lock lock;
 *       struct node *first SA_GUARDED_BY(SA_RANK_LIST);
 *   };
 *   static void list_add(struct list *l, struct node *n) SA_REQUIRES(SA_RANK_LIST);
 *
 * Atomic accesses (alloc/base/atomic.h) take an address and are not checked. A field that is
 * written under a lock and read without it by atomic loads is annotated, too.
 */
#ifndef SA_BASE_THREAD_SAFETY_H
#define SA_BASE_THREAD_SAFETY_H

#if defined(__clang__) && __has_attribute(capability)
#define SA_TS_ATTRIBUTE(x) __attribute__((x))
#else
#define SA_TS_ATTRIBUTE(x)
#endif

/* Before the name of a struct: objects of this type are what threads hold. */
#define SA_CAPABILITY(what) SA_TS_ATTRIBUTE(capability(what))

/* After a field or variable: its value, or what it points to, is accessed under that rank only. */
#define SA_GUARDED_BY(rank)    SA_TS_ATTRIBUTE(guarded_by(sa_lock_held[rank]))
#define SA_PT_GUARDED_BY(rank) SA_TS_ATTRIBUTE(pt_guarded_by(sa_lock_held[rank]))

/* After the parameters of a function: the caller holds the rank, or does not hold it. */
#define SA_REQUIRES(rank) SA_TS_ATTRIBUTE(requires_capability(sa_lock_held[rank]))
#define SA_EXCLUDES(rank) SA_TS_ATTRIBUTE(locks_excluded(sa_lock_held[rank]))

/* The function acquires the rank, releases it, or acquires it if it returns `success`. */
#define SA_ACQUIRE(rank) SA_TS_ATTRIBUTE(acquire_capability(sa_lock_held[rank]))
#define SA_RELEASE(rank) SA_TS_ATTRIBUTE(release_capability(sa_lock_held[rank]))
#define SA_TRY_ACQUIRE(success, rank)                                                              \
    SA_TS_ATTRIBUTE(try_acquire_capability(success, sa_lock_held[rank]))

/* The rank counts as held after a call of the function; see SA_DCHECK_HELD in alloc/os/lock.h. */
#define SA_ASSERT_HELD(rank) SA_TS_ATTRIBUTE(assert_capability(sa_lock_held[rank]))

/*
 * The fork gate (alloc/fork/fork_gate.h), which sa_gate_held stands for. After the parameters of a
 * function:
 *
 *   SA_INSIDE_GATE    the caller is inside
 *   SA_OUTSIDE_GATE   the caller is not inside, as far as the analysis can tell
 *   SA_ENTERS_GATE    the caller is inside if the function returns true
 *   SA_LEAVES_GATE    the caller is inside, and not any more afterwards
 *   SA_ASSERTS_INSIDE the caller counts as inside from here on
 *   SA_CLOSES_GATE    the caller has the gate exclusively if the function returns true
 *   SA_OPENS_GATE     the caller has the gate exclusively, and not any more afterwards
 *
 * Threads enter again while they are inside. The analysis sees one function at a time and takes
 * that for an error, so a function that is inside calls others that enter, but does not itself.
 */
#define SA_INSIDE_GATE    SA_TS_ATTRIBUTE(requires_shared_capability(sa_gate_held))
#define SA_OUTSIDE_GATE   SA_TS_ATTRIBUTE(locks_excluded(sa_gate_held))
#define SA_ENTERS_GATE    SA_TS_ATTRIBUTE(try_acquire_shared_capability(true, sa_gate_held))
#define SA_LEAVES_GATE    SA_TS_ATTRIBUTE(release_shared_capability(sa_gate_held))
#define SA_ASSERTS_INSIDE SA_TS_ATTRIBUTE(assert_shared_capability(sa_gate_held))
#define SA_CLOSES_GATE    SA_TS_ATTRIBUTE(try_acquire_capability(true, sa_gate_held))
#define SA_OPENS_GATE     SA_TS_ATTRIBUTE(release_capability(sa_gate_held))

/* The analysis skips the body of this function. A comment beside the attribute says why: start-up
 * before other threads know the object, a lock held on some paths only, or a benign race. */
#define SA_NO_THREAD_SAFETY_ANALYSIS SA_TS_ATTRIBUTE(no_thread_safety_analysis)

/* Element `rank` stands for all locks of that rank. Only attributes name the array, which has no
 * storage. */
struct SA_CAPABILITY("lock") sa_lock_held {
    char unused;
};
extern struct sa_lock_held sa_lock_held[];

/* Stands for the fork gate, likewise. */
struct SA_CAPABILITY("fork gate") sa_gate_held {
    char unused;
};
extern struct sa_gate_held sa_gate_held;

#endif
