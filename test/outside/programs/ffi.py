#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Foreign function interfaces, which find libc's functions by name in a handle of libc: what strdup returns is freed by
free, and so is what malloc returns. Those that are installed, each compared with a run without the library.

usage: ffi.py LIBRARY [VARIABLE=VALUE...]

Exit status 77: none is installed.
"""
import os
import shutil
import subprocess
import sys
import tempfile

SKIPPED = 77
TIMES = 2000
SECONDS = 120

# The command without its script; the name of the script; the script. Each prints "ok" as its last line.
INTERFACES = {
    'ctypes': (['/usr/bin/python3'], 't.py', '''
import ctypes
c = ctypes.CDLL("libc.so.6")
for name in "strdup", "malloc", "realloc":
    getattr(c, name).restype = ctypes.c_void_p
c.free.argtypes = c.malloc_usable_size.argtypes = [ctypes.c_void_p]
c.realloc.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
for i in range(TIMES):
    c.free(c.strdup(b"x" * i))
    p = c.realloc(c.malloc(i + 1), 3 * i + 1)
    assert c.malloc_usable_size(p) > 3 * i
    c.free(p)
print("ok")
'''),
    'fiddle': (['ruby'], 't.rb', '''
require "fiddle"
c = Fiddle.dlopen("libc.so.6")
dup = Fiddle::Function.new(c["strdup"], [Fiddle::TYPE_VOIDP], Fiddle::TYPE_VOIDP)
get = Fiddle::Function.new(c["malloc"], [Fiddle::TYPE_SIZE_T], Fiddle::TYPE_VOIDP)
rel = Fiddle::Function.new(c["free"], [Fiddle::TYPE_VOIDP], Fiddle::TYPE_VOID)
TIMES.times { |i| rel.call(dup.call("x" * i)); rel.call(get.call(i + 1)) }
Fiddle.free(Fiddle.malloc(100))
puts "ok"
'''),
    'luajit': (['luajit'], 't.lua', '''
local ffi = require("ffi")
ffi.cdef "char *strdup(const char *); void free(void *); void *malloc(size_t);"
local c = ffi.load("libc.so.6")
for i = 1, TIMES do
    c.free(c.strdup(string.rep("x", i)))
    ffi.C.free(c.malloc(i))
    c.free(ffi.C.malloc(i))
end
print("ok")
'''),
    'guile': (['guile', '--no-auto-compile'], 't.scm', '''
(use-modules (system foreign))
(define c (dynamic-link "libc.so.6"))
(define get (pointer->procedure '* (dynamic-func "malloc" c) (list size_t)))
(define dup (pointer->procedure '* (dynamic-func "strdup" c) (list '*)))
(define rel (pointer->procedure void (dynamic-func "free" c) (list '*)))
(do ((i 1 (+ i 1))) ((> i TIMES))
  (rel (dup (string->pointer (make-string i #\\x))))
  (rel (get i)))
(display "ok")
(newline)
'''),
    'php': (['php', '-d', 'ffi.enable=1', '-d', 'extension=ffi'], 't.php', '''<?php
$c = FFI::cdef("char *strdup(const char *); void free(void *); void *malloc(size_t);", "libc.so.6");
for ($i = 1; $i <= TIMES; $i++) {
    $c->free($c->strdup(str_repeat("x", $i)));
    $c->free($c->malloc($i));
}
echo "ok\\n";
'''),
    'racket': (['racket'], 't.rkt', '''#lang racket/base
(require ffi/unsafe)
(define c (ffi-lib "libc" '("6")))
(define get (get-ffi-obj "malloc" c (_fun _size -> _pointer)))
(define dup (get-ffi-obj "strdup" c (_fun _bytes -> _pointer)))
(define rel (get-ffi-obj "free" c (_fun _pointer -> _void)))
(for ([i (in-range 1 TIMES)])
  (rel (dup (make-bytes i 120)))
  (rel (get i))
  (free (malloc i 'raw)))
(displayln "ok")
'''),
    'mono': (['mono'], 't.cs', '''
using System; using System.Runtime.InteropServices;
class T {
    [DllImport("libc.so.6")] static extern IntPtr strdup(string s);
    [DllImport("libc.so.6")] static extern IntPtr malloc(UIntPtr n);
    [DllImport("libc.so.6")] static extern void free(IntPtr p);
    static void Main() {
        for (int i = 1; i <= TIMES; i++) {
            free(strdup(new string('x', i)));
            free(malloc((UIntPtr)i));
            Marshal.FreeHGlobal(Marshal.AllocHGlobal(i));
        }
        Console.WriteLine("ok");
    }
}
'''),
    'java': (['java', '-cp', '/usr/share/java/jna.jar'], 'T.java', '''
import com.sun.jna.*;
public class T {
    public interface C extends Library {
        C c = Native.load("libc.so.6", C.class);
        Pointer strdup(String s);
        Pointer malloc(NativeLong n);
        void free(Pointer p);
    }
    public static void main(String[] words) {
        for (int i = 1; i <= TIMES; i++) {
            C.c.free(C.c.strdup("x".repeat(i)));
            C.c.free(C.c.malloc(new NativeLong(i)));
        }
        System.out.println("ok");
    }
}
'''),
    'sbcl': (['sbcl', '--script'], 't.lisp', '''
(load-shared-object "libc.so.6")
(dotimes (i TIMES)
  (let ((p (alien-funcall (extern-alien "strdup" (function system-area-pointer c-string)) (make-string i))))
    (alien-funcall (extern-alien "free" (function void system-area-pointer)) p))
  (free-alien (make-alien char (+ i 1))))
(format t "ok~%")
'''),
    'perl': (['perl'], 't.pl', '''
use FFI::Platypus;
my $ffi = FFI::Platypus->new(api => 1, lib => "libc.so.6");
my $dup = $ffi->function(strdup => ["string"] => "opaque");
my $get = $ffi->function(malloc => ["size_t"] => "opaque");
my $rel = $ffi->function(free => ["opaque"] => "void");
for my $i (1 .. TIMES) {
    $rel->call($dup->call("x" x $i));
    $rel->call($get->call($i));
}
print "ok\\n";
'''),
}


def fault_of(name, library, variables, folder):
    """What is wrong under an interface; None if nothing is, a word if it is not installed."""
    command, script, text = INTERFACES[name]
    path = os.path.join(folder, script)
    env = {**os.environ, 'LC_ALL': 'C.UTF-8', 'HOME': folder}
    if not shutil.which(command[0]):
        return 'skipped'
    with open(path, 'w', encoding='utf-8') as file:
        file.write(text.replace('TIMES', str(TIMES)))
    if name == 'mono':
        compiler = shutil.which('mcs')
        if not compiler or subprocess.run([compiler, '-out:' + path + '.exe', path], env=env, check=False).returncode:
            return 'skipped'
        path += '.exe'
    loaded = {**env, 'LD_PRELOAD': library, **variables}
    for environment in env, loaded:
        done = subprocess.run([*command, path], env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=SECONDS, check=False)
        if done.returncode or done.stdout.strip().split('\n')[-1] != 'ok':
            return 'skipped' if environment is env else f'status {done.returncode}: {done.stdout[-2000:]}'
        if environment is env:
            alone = done.stdout
    return None if done.stdout == alone else 'other output: ' + done.stdout[-2000:]


def main():
    library = os.path.abspath(sys.argv[1])
    variables = dict(word.split('=', 1) for word in sys.argv[2:])
    faults = {}
    for name in INTERFACES:
        with tempfile.TemporaryDirectory(prefix='salloc-ffi-') as folder:
            faults[name] = fault_of(name, library, variables, folder)
        print(f'{name}: {faults[name] or "ok"}', flush=True)
    if all(fault == 'skipped' for fault in faults.values()):
        return SKIPPED
    return 1 if any(fault not in (None, 'skipped') for fault in faults.values()) else 0


if __name__ == '__main__':
    sys.exit(main())
