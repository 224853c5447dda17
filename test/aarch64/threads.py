# SPDX-License-Identifier: Apache-2.0
"""Containers built and torn down by several threads; runs in the guest. Prints what does not depend
on timing."""
import queue
import threading

WORKERS, ROUNDS = 4, 60
todo, done = queue.Queue(), queue.Queue()


def work():
    for n in iter(todo.get, None):
        words = {"%d:%d" % (n, i): [i] * (i % 37) for i in range(400)}
        text = "".join(sorted(words)) + str(sum(map(len, words.values())))
        done.put((n, len(text), hash(frozenset(len(v) for v in words.values()))))


threads = [threading.Thread(target=work) for _ in range(WORKERS)]
for t in threads:
    t.start()
for n in range(ROUNDS):
    todo.put(n)
for _ in threads:
    todo.put(None)
for t in threads:
    t.join()
print(sorted(done.get() for _ in range(ROUNDS)))
