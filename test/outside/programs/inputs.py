# SPDX-License-Identifier: Apache-2.0
"""Generated inputs for programs.py: each the same every time."""
import random


def git_stream(commits):
    """A history for git fast-import: files that change a little, a branch and merges now and then."""
    rng = random.Random(1)
    files = {f'file{n}': [f'file {n}, line {i}' for i in range(150)] for n in range(25)}
    out = []
    for n in range(1, commits + 1):
        name = f'file{rng.randrange(25)}'
        lines = files[name]
        for _ in range(3):
            at = rng.randrange(len(lines))
            lines[at:at + rng.randrange(2)] = [f'line {rng.randrange(10 ** 6)} of commit {n}']
        data = '\n'.join(lines) + '\n'
        message = f'Change {name}, number {n}\n'
        who = f'A U Thor <author@example.com> {1500000000 + n * 60} +0000'
        out.append(f'commit refs/heads/main\nmark :{n}\nauthor {who}\ncommitter {who}\n'
                   f'data {len(message)}\n{message}')
        if n > 1:
            out.append(f'from :{n - 1}\n')
        if n % 50 == 0:
            out.append(f'merge :{n - 30}\n')
        out.append(f'M 100644 inline {name}\ndata {len(data)}\n{data}\n')
    return ''.join(out).encode()


def c_source(functions):
    """A file of functions with loops, switches, structures and calls, for an optimiser to work on."""
    rng = random.Random(2)
    out = ['#include <stddef.h>\n#include <string.h>\n'
           'struct item { int key; double value; struct item *next; char name[24]; };\n']
    for n in range(functions):
        a, b, c = (rng.randrange(1, 1000) for _ in range(3))
        calls = ' + '.join(f'f{rng.randrange(n)}(it, n / 2, x)' for _ in range(2)) if n else '0'
        cases = '\n'.join(f'        case {k}: s += x[i % {k + 2}] * {rng.randrange(99)}; break;'
                          for k in range(rng.randrange(4, 14)))
        out.append(f'''
double f{n}(struct item *it, int n, double *x)
{{
    double s = {a};
    for (int i = 0; i < n; i++) {{
        switch (i * {b} % 17) {{
{cases}
        default: s = s * 0.5 + (it ? it->value : {c});
        }}
        for (struct item *p = it; p; p = p->next) {{
            if (p->key % {a} == {b % 7})
                memcpy(p->name, "{n}", {len(str(n)) + 1});
            p->value += s / (p->key + {c});
        }}
    }}
    return n > 3 ? s + {calls} : s;
}}
''')
    return ''.join(out)


def cxx_source(functions):
    """Templates of the standard library, for its front end to instantiate."""
    rng = random.Random(4)
    out = ['#include <algorithm>\n#include <map>\n#include <memory>\n#include <regex>\n#include <sstream>\n'
           '#include <string>\n#include <unordered_map>\n#include <variant>\n#include <vector>\n']
    for n in range(functions):
        kind = rng.choice(['int', 'std::string', 'std::vector<double>', 'std::shared_ptr<long>'])
        out.append(f'''
struct type{n} {{ std::map<std::string, {kind}> members; std::variant<int, std::string, double> any; }};
std::string f{n}(std::vector<type{n}> &all, const std::string &word)
{{
    std::unordered_map<std::string, std::unique_ptr<type{n}>> found;
    std::ostringstream text;
    std::regex wanted("a+{n}(b|c)*");
    std::sort(all.begin(), all.end(), [](auto &a, auto &b) {{ return a.members.size() < b.members.size(); }});
    for (auto &each : all)
        for (auto &[name, value] : each.members)
            if (std::regex_match(name, wanted))
                found.emplace(name + word, std::make_unique<type{n}>(each));
    for (auto &each : found)
        std::visit([&](auto &value) {{ text << each.first << value << {n}; }}, each.second->any);
    return text.str();
}}
''')
    return ''.join(out)


def sql(rows):
    """Tables, indices, joins, updates, text functions."""
    return f'''
PRAGMA temp_store = MEMORY;
CREATE TABLE t(id INTEGER PRIMARY KEY, a INTEGER, b TEXT, c REAL);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows})
INSERT INTO t SELECT i, (i * 7919) % 10007, printf('row %d of %d', i, (i * 31) % 997), i * 0.5 FROM n;
CREATE INDEX ta ON t(a, b);
CREATE TABLE u AS SELECT a, count(*) AS k, group_concat(id, '-') AS ids FROM t GROUP BY a;
CREATE INDEX ua ON u(a);
SELECT count(*), sum(length(ids)) FROM u;
SELECT t.a, u.k, max(t.b) FROM t JOIN u ON t.a = u.a WHERE t.id % 97 = 0 GROUP BY t.a ORDER BY 3, 1 LIMIT 500;
UPDATE t SET b = upper(b) || hex(b) WHERE a < 3000;
SELECT sum(length(b)), min(b), max(b) FROM t;
DELETE FROM t WHERE a % 3 = 0;
SELECT a, group_concat(b, '+') FROM (SELECT * FROM t ORDER BY b) GROUP BY a ORDER BY 2 LIMIT 50;
VACUUM;
PRAGMA integrity_check;
'''


def lines(megabytes):
    """Random lines of 41 bytes."""
    rng = random.Random(3)
    for _ in range(megabytes):
        text = rng.randbytes((1 << 20) // 41 * 20).hex()
        yield '\n'.join(text[i:i + 40] for i in range(0, len(text), 40)).encode() + b'\n'


NODE = r'''
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');
const crypto = require('crypto');
function work(seed) {
  let state = seed >>> 0;
  const next = () => (state = (state * 1664525 + 1013904223) >>> 0);
  const map = new Map();
  const hash = crypto.createHash('sha256');
  for (let i = 0; i < 200000; i++) {
    const k = 'key' + next() % 20011;
    map.set(k, (map.get(k) || '') + String.fromCharCode(97 + i % 26));
    if (i % 1000 === 0) {
      const b = Buffer.alloc(1 + next() % 200000, i & 255);
      hash.update(b);
    }
  }
  const text = JSON.stringify([...map].sort());
  hash.update(text);
  hash.update(JSON.stringify(JSON.parse(text)).replace(/a+/g, m => m.length));
  return seed + ' ' + map.size + ' ' + hash.digest('hex');
}
if (isMainThread) {
  const jobs = [1, 2, 3, 4].map(seed => new Promise((done, failed) => {
    const w = new Worker(__filename, { workerData: seed });
    w.on('message', done);
    w.on('error', failed);
  }));
  console.log(work(0));
  Promise.all(jobs).then(all => console.log(all.join('\n')));
} else {
  parentPort.postMessage(work(workerData));
}
'''

JAVA = r'''
import java.security.MessageDigest;
import java.util.*;
import java.util.concurrent.*;
import java.util.zip.*;
public class Script {
    static String work(int seed) throws Exception {
        Random random = new Random(seed);
        Map<String, StringBuilder> map = new TreeMap<>();
        for (int i = 0; i < 200000; i++)
            map.computeIfAbsent("key" + random.nextInt(20011), k -> new StringBuilder()).append((char) (97 + i % 26));
        byte[] text = map.toString().getBytes("UTF-8"), packed = new byte[text.length + 100];
        MessageDigest hash = MessageDigest.getInstance("SHA-256");
        for (int i = 0; i < 20; i++) {
            Deflater deflater = new Deflater(1 + i % 9);
            deflater.setInput(text);
            deflater.finish();
            hash.update(packed, 0, deflater.deflate(packed));
            deflater.end();
            java.nio.ByteBuffer.allocateDirect(1 + random.nextInt(1 << 20)).putInt(0, i);
        }
        int caught = 0;
        for (int i = 0; i < 200000; i++) {
            String s = i % 1000 == 0 ? null : "text";
            try {
                caught += s.length() / 5;
            } catch (NullPointerException e) {
                caught++;
            }
        }
        return seed + " " + map.size() + " " + caught + " " + new java.math.BigInteger(1, hash.digest()).toString(16);
    }
    public static void main(String[] words) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(4);
        List<Future<String>> all = new ArrayList<>();
        for (int i = 0; i < 6; i++) {
            int seed = i;
            all.add(pool.submit(() -> work(seed)));
        }
        for (Future<String> each : all)
            System.out.println(each.get());
        pool.shutdown();
    }
}
'''

# cgo, so that the program is linked to the C library; its handler of SIGSEGV is the runtime's.
GO = r'''
package main

// #include <stdlib.h>
// #include <string.h>
// static unsigned work(unsigned seed)
// {
//     char *kept[64] = {0};
//     unsigned sum = 0;
//     for (int i = 0; i < 100000; i++) {
//         unsigned n = (seed = seed * 1664525 + 1013904223) >> 8;
//         char **p = &kept[n % 64];
//         if (*p)
//             sum += strlen(*p);
//         free(*p);
//         *p = malloc(n / 64 % 3000 + 1);
//         memset(*p, 'x', n / 64 % 3000);
//         (*p)[n / 64 % 3000] = 0;
//     }
//     for (int i = 0; i < 64; i++)
//         free(kept[i]);
//     return sum;
// }
import "C"
import "fmt"
import "unsafe"

type node struct{ next *node; value int }

func fault(n *node) (ret string) {
    defer func() { ret = fmt.Sprint(recover()) }()
    return fmt.Sprint(n.next.value)
}

func main() {
    results := make(chan string)
    for i := 0; i < 8; i++ {
        go func(seed int) {
            text := fmt.Sprint(seed, " ", uint(C.work(C.uint(seed))))
            for k := 0; k < 1000; k++ {
                p := C.CString(text)
                if C.GoString(p) != text {
                    panic("differs")
                }
                C.free(unsafe.Pointer(p))
            }
            results <- text + " " + fault(&node{nil, seed})
        }(i)
    }
    all := make(map[string]bool)
    for i := 0; i < 8; i++ {
        all[<-results] = true
    }
    fmt.Println(all)
}
'''

PERL = r'''
use strict;
use Digest::MD5 qw(md5_hex);
my ($state, %count, @list) = (1);
sub next_number { $state = ($state * 1103515245 + 12345) & 0x7fffffff; return $state; }
for my $i (1 .. 300000) {
    my $key = "key" . next_number() % 30011;
    $count{$key} .= chr(97 + $i % 26);
    push @list, "x" x (next_number() % 300) if $i % 10 == 0;
}
my $text = join(",", map { "$_=$count{$_}" } sort keys %count);
print length($text), " ", md5_hex($text), "\n";
$text =~ s/(\w)(\w+)=/$2$1:/g;
print md5_hex($text), " ", md5_hex(join("", sort @list)), "\n";
for my $n (1 .. 5) {
    my $pid = open(my $child, "-|") // die;
    if (!$pid) {
        splice(@list, 0, 1000 * $n);
        print md5_hex(join("", reverse @list)), "\n";
        exit 0;
    }
    print <$child>;
    close $child;
}
'''

PHP = r'''<?php
$state = 1; $map = [];
for ($i = 0; $i < 200000; $i++) {
    $state = ($state * 1103515245 + 12345) & 0x7fffffff;
    $key = "key" . ($state % 20011);
    $map[$key] = ($map[$key] ?? "") . chr(97 + $i % 26);
}
ksort($map);
$text = json_encode($map);
echo count($map), " ", md5($text), " ", md5(serialize(json_decode($text, true))), "\n";
echo md5(preg_replace('/(\w)(\w+)/', '$2$1', $text)), "\n";
print_r(array_slice($map, 0, 20));
'''
