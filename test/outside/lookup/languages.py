#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Foreign function interfaces of languages: blocks of malloc and strdup, found in a handle of libc and in the process
itself, are freed by what was found in the other one. All blocks are salloc's, so nothing is said and nothing dies.
usage: languages.py LIBRARY LANGUAGE
"""
import os
import platform
import shutil
import subprocess
import sys
import tempfile

JAR = '/usr/share/java/jna.jar'
LIBC = '/lib/%s-linux-gnu/libc.so.6' % platform.machine()
SIZES = [1, 100, 5000, 300000, 3000000]

PYTHON = '''
import ctypes
handles = [ctypes.CDLL("libc.so.6"), ctypes.CDLL(None), ctypes.CDLL("libm.so.6")]
for h in handles:
    h.malloc.restype = h.strdup.restype = h.realloc.restype = ctypes.c_void_p
    h.malloc.argtypes, h.free.argtypes, h.strdup.argtypes = [ctypes.c_size_t], [ctypes.c_void_p], [ctypes.c_char_p]
    h.realloc.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
for i in range(50):
    for a in handles:
        for b in handles:
            for n in SIZES:
                b.free(a.realloc(b.malloc(n), 2 * n))
            b.free(a.strdup(b"text"))
print("ok")
'''

RUBY = '''
require 'fiddle'
handles = [Fiddle.dlopen('libc.so.6'), Fiddle.dlopen(nil), Fiddle::Handle::DEFAULT]
P, V, N = Fiddle::TYPE_VOIDP, Fiddle::TYPE_VOID, Fiddle::TYPE_SIZE_T
f = handles.map { |h| [Fiddle::Function.new(h['malloc'], [N], P), Fiddle::Function.new(h['free'], [P], V),
                       Fiddle::Function.new(h['strdup'], [P], P)] }
50.times { f.each { |a| f.each { |b|
  SIZES.each { |n| b[1].call(a[0].call(n)) }
  b[1].call(a[2].call("text"))
  Fiddle.free(a[0].call(100).to_i)
  b[1].call(Fiddle.malloc(100)) } } }
puts "ok"
'''

LUA = '''
local ffi = require("ffi")
ffi.cdef("void *malloc(size_t); void free(void *); char *strdup(const char *); void *realloc(void *, size_t);")
local handles = {ffi.load("libc.so.6"), ffi.C, ffi.load("libm.so.6")}
for i = 1, 50 do for _, a in ipairs(handles) do for _, b in ipairs(handles) do
  for _, n in ipairs({SIZES}) do b.free(a.realloc(b.malloc(n), 2 * n)) end
  b.free(a.strdup("text"))
  local p = ffi.gc(a.malloc(100), b.free)
end end end
collectgarbage()
print("ok")
'''

GUILE = '''
(use-modules (system foreign))
(define handles (list (dynamic-link "libc.so.6") (dynamic-link)))
(define (get h) (pointer->procedure '* (dynamic-func "malloc" h) (list size_t)))
(define (dup h) (pointer->procedure '* (dynamic-func "strdup" h) (list '*)))
(define (release h) (pointer->procedure void (dynamic-func "free" h) (list '*)))
(do ((i 0 (+ i 1))) ((= i 50))
  (for-each (lambda (a) (for-each (lambda (b)
    (for-each (lambda (n) ((release b) ((get a) n))) '(SIZES))
    ((release b) ((dup a) (string->pointer "text")))
    (set-pointer-finalizer! ((get a) 100) (dynamic-func "free" b))) handles)) handles))
(gc)
(display "ok\\n")
'''

PHP = '''<?php
$text = "void *malloc(size_t); void free(void *); char *strdup(const char *);";
$handles = [FFI::cdef($text, "libc.so.6"), FFI::cdef($text)];
for ($i = 0; $i < 50; $i++) foreach ($handles as $a) foreach ($handles as $b) {
    foreach ([SIZES] as $n) $b->free($a->malloc($n));
    $b->free($a->strdup("text"));
}
echo "ok\\n";
'''

# The interface of Java 17, still in incubation.
JAVA = '''
import java.lang.invoke.*;
import jdk.incubator.foreign.*;
public class T {
    static MethodHandle find(SymbolLookup in, String name, MethodType type, FunctionDescriptor f) {
        return CLinker.getInstance().downcallHandle(in.lookup(name).get(), type, f);
    }
    public static void main(String[] v) throws Throwable {
        System.load(v[0]);
        SymbolLookup[] in = {CLinker.systemLookup(), SymbolLookup.loaderLookup()};
        MethodType get = MethodType.methodType(MemoryAddress.class, long.class);
        MethodType put = MethodType.methodType(void.class, MemoryAddress.class);
        long[] sizes = {SIZES};
        for (int i = 0; i < 20; i++) for (SymbolLookup a : in) for (SymbolLookup b : in) {
            MethodHandle malloc = find(a, "malloc", get, FunctionDescriptor.of(CLinker.C_POINTER, CLinker.C_LONG));
            MethodHandle free = find(b, "free", put, FunctionDescriptor.ofVoid(CLinker.C_POINTER));
            for (long n : sizes) free.invoke((MemoryAddress) malloc.invoke(n));
            CLinker.freeMemory((MemoryAddress) malloc.invoke(100L));
            free.invoke(CLinker.allocateMemory(100));
        }
        System.out.println("ok");
    }
}
'''

MONO = '''
using System;
using System.Runtime.InteropServices;
class T {
    [DllImport("libc.so.6", EntryPoint="malloc")] static extern IntPtr Get(UIntPtr n);
    [DllImport("libc.so.6", EntryPoint="free")] static extern void Release(IntPtr p);
    [DllImport("__Internal", EntryPoint="malloc")] static extern IntPtr OwnGet(UIntPtr n);
    [DllImport("__Internal", EntryPoint="free")] static extern void OwnRelease(IntPtr p);
    static void Main() {
        for (int i = 0; i < 50; i++) foreach (uint n in new uint[] {SIZES}) {
            OwnRelease(Get((UIntPtr)n));
            Release(OwnGet((UIntPtr)n));
            Marshal.FreeHGlobal(Get((UIntPtr)n));
            Release(Marshal.AllocHGlobal((int)n));
        }
        Console.WriteLine("ok");
    }
}
'''

RACKET = '''
#lang racket/base
(require ffi/unsafe)
(define handles (list (ffi-lib "libc" '("6")) (ffi-lib #f)))
(define (get h) (get-ffi-obj "malloc" h (_fun _size -> _pointer)))
(define (release h) (get-ffi-obj "free" h (_fun _pointer -> _void)))
(for* ([i 50] [a handles] [b handles] [n '(SIZES)])
  ((release b) ((get a) n))
  (free ((get a) 100))
  ((release b) (malloc 100 'raw)))
(displayln "ok")
'''

# JNA, the interface of Java without a newer one.
JNA = '''
import com.sun.jna.*;
public class T {
    public interface C extends Library {
        Pointer strdup(String s);
        Pointer malloc(NativeLong n);
        void free(Pointer p);
    }
    public static void main(String[] v) {
        C[] in = {Native.load("libc.so.6", C.class), Native.load(null, C.class)};
        long[] sizes = {SIZES};
        for (int i = 0; i < 20; i++) for (C a : in) for (C b : in) {
            for (long n : sizes) b.free(a.malloc(new NativeLong(n)));
            b.free(a.strdup("text"));
        }
        System.out.println("ok");
    }
}
'''

SBCL = '''
(load-shared-object "libc.so.6")
(dotimes (i 50)
  (dolist (n '(SIZES))
    (alien-funcall (extern-alien "free" (function void system-area-pointer))
                   (alien-funcall (extern-alien "malloc" (function system-area-pointer unsigned-long)) n)))
  (alien-funcall (extern-alien "free" (function void system-area-pointer))
                 (alien-funcall (extern-alien "strdup" (function system-area-pointer c-string)) "text"))
  (free-alien (make-alien char (+ i 1))))
(format t "ok~%")
'''

PERL = '''
use FFI::Platypus;
my @in = map {
    my $ffi = FFI::Platypus->new(api => 1, lib => $_);
    [$ffi->function(malloc => ["size_t"] => "opaque"), $ffi->function(free => ["opaque"] => "void"),
     $ffi->function(strdup => ["string"] => "opaque")]
} ("libc.so.6", undef);
for (1 .. 50) { for my $a (@in) { for my $b (@in) {
    $b->[1]->call($a->[0]->call($_)) for (SIZES);
    $b->[1]->call($a->[2]->call("text"));
} } }
print "ok\\n";
'''

# Language: (program, file, separator of SIZES, commands with FILE, LIBRARY and FOLDER; the last one runs on salloc).
LANGUAGES = {
    'python': (PYTHON, 't.py', ', ', [['python3', 'FILE']]),
    'ruby': (RUBY, 't.rb', ', ', [['ruby', 'FILE']]),
    'luajit': (LUA, 't.lua', ', ', [['luajit', 'FILE']]),
    'guile': (GUILE, 't.scm', ' ', [['guile', '--no-auto-compile', '-s', 'FILE']]),
    'php': (PHP, 't.php', ', ', [['php', '-d', 'ffi.enable=1', 'FILE']]),
    'java': (JAVA, 'T.java', ', ',
             [['javac', '--add-modules', 'jdk.incubator.foreign', '-d', 'FOLDER', 'FILE'],
              ['java', '--add-modules', 'jdk.incubator.foreign', '--enable-native-access=ALL-UNNAMED', '-cp', 'FOLDER', 'T',
               'LIBC']]),
    'mono': (MONO, 't.cs', ', ', [['mcs', '-out:FOLDER/t.exe', 'FILE'], ['mono', 'FOLDER/t.exe']]),
    'jna': (JNA, 'T.java', ', ', [['javac', '-cp', JAR, '-d', 'FOLDER', 'FILE'], ['java', '-cp', JAR + ':FOLDER', 'T']]),
    'sbcl': (SBCL, 't.lisp', ' ', [['sbcl', '--script', 'FILE']]),
    'perl': (PERL, 't.pl', ', ', [['perl', '-MFFI::Platypus', '-e', '1'], ['perl', 'FILE']]),
    'racket': (RACKET, 't.rkt', ' ', [['racket', 'FILE']]),
}


def skip(reason):
    print(reason)
    sys.exit(77)


def main(library, language):
    text, name, separator, commands = LANGUAGES[language]
    listed = separator.join(map(str, SIZES))
    text = text.lstrip('\n').replace('SIZES', '[%s]' % listed if language in ('python', 'ruby') else listed)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, name)
        with open(path, 'w') as f:
            f.write(text)
        for number, command in enumerate(commands):
            if not shutil.which(command[0]):
                skip('%s is not installed' % command[0])
            words = [w.replace('FOLDER', folder).replace('FILE', path).replace('LIBC', LIBC)
                     for w in command]
            environment = dict(os.environ, HOME=folder)
            for conf in ['', 'sample_interval:4k', 'hardening:on'] if number == len(commands) - 1 else [None]:
                if conf is not None:
                    environment.update(LD_PRELOAD=library, SALLOC_CONF=conf)
                done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=100)
                if conf is None and done.returncode:
                    skip('%s does not build this: %s' % (command[0], done.stderr[-300:]))
                if language == 'php' and 'Class "FFI" not found' in done.stdout + done.stderr:
                    skip('php has no FFI')
                if conf is not None and (done.returncode or done.stdout != 'ok\n' or 'salloc' in done.stderr):
                    sys.exit('%s with SALLOC_CONF=%s: status %d\n%s%s' % (language, conf, done.returncode, done.stdout,
                                                                         done.stderr))
    print('%s: ok' % language)


if __name__ == '__main__':
    main(*sys.argv[1:])
