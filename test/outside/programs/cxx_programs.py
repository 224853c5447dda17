#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""C++ programs of Debian end with the same status under the library as without, and the library says nothing but
where it has found a size of a free that is not the block's.

usage: cxx_programs.py LIBRARY [VARIABLE=VALUE...]

Exit status 77: fewer than LEAST of them are installed. Debian's packages, for a run of all: see PACKAGES.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

SKIPPED = 77
LEAST = 10
SECONDS = 120  # of one program

PACKAGES = '''apt aptitude groff-base cmake ninja-build gperf swig4.0 cppcheck astyle uncrustify re2c doxygen
protobuf-compiler poppler-utils exiv2 qpdf mkvtoolnix source-highlight gnuplot-nox ledger hunspell aspell lzip plzip
aria2 lftp iverilog yosys z3 minisat coinor-cbc bedtools 7zip advancecomp zpaq innoextract par2 xapian-tools
osmium-tool proj-bin dcmtk smartmontools lshw rdfind hashdeep stockfish znc mosh xsdcxx xalan jsonnet kakoune
rocksdb-tools povray tesseract-ocr gdb lldb clang-format clang-tidy clang g++ nodejs mpd ncmpc dnsdist pdns-recursor
kea-dhcp4-server sphinxsearch btop'''

INPUTS = {
    'a.cc': '#include <map>\n#include <string>\nstruct A { std::map<int, std::string> m; };\n'
            'int main() { A a; for (int i = 0; i < 9; i++) a.m[i] = std::to_string(i); return a.m.size() != 9; }\n',
    'a.pdf': '%PDF-1.1\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n'
             '3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 99 99]/Contents 4 0 R/Resources<<>>>>endobj\n'
             '4 0 obj<</Length 20>>stream\n0 0 m 100 100 l S   \nendstream endobj\ntrailer<</Root 1 0 R/Size 5>>\n',
    'a.txt': ''.join(f'line {i} of a text with words such as apple, banannna and {i * 7919 % 1000}\n' for i in range(3000)),
    'a.proto': 'syntax="proto3";\nmessage M { int32 a = 1; repeated string b = 2; }\n',
    'a.gperf': 'a\nb\nc\n',
    'a.i': '%module m\nint f(int);\n',
    'a.re': '/*!re2c re2c:define:YYCTYPE=char; re2c:yyfill:enable=0; [a-z]+ {return 1;} * {return 0;} */\n',
    'a.v': 'module t; initial begin $display("hi"); $finish; end endmodule\n',
    'a.smt2': '(declare-const x Int)(assert (> (* x x) 100))(assert (< x 50))(check-sat)\n',
    'a.cnf': 'p cnf 3 3\n1 2 0\n-1 3 0\n-2 -3 0\n',
    'a.lp': 'Minimize\n obj: x + 2 y\nSubject To\n c1: x + y >= 3\nBounds\n x <= 2\nEnd\n',
    'a.dat': '2020/01/01 a\n  e:f  $10\n  a:c\n',
    'a.bed': 'chr1\t1\t100\nchr1\t50\t200\nchr2\t5\t9\n',
    'a.xml': '<r><a x="1">t</a></r>\n',
    'a.xsl': '<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform"><xsl:template match="/">'
             '<o><xsl:value-of select="//a"/></o></xsl:template></xsl:stylesheet>\n',
    'a.xsd': '<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema"><xs:element name="r" type="xs:string"/></xs:schema>\n',
    'a.jsonnet': '{local a = std.range(1, 300), b: [x * x for x in a]}\n',
    'a.pov': 'camera{location<0,0,-5> look_at 0}sphere{0,1 pigment{rgb 1}}light_source{<5,5,-5> rgb 1}\n',
    'CMakeLists.txt': 'cmake_minimum_required(VERSION 3.10)\nproject(x CXX)\nadd_executable(a a.cc)\n',
    'build.ninja': 'rule c\n command = cat $in > $out\nbuild b.txt: c a.txt\n',
}

# The first word names the program.
COMMANDS = '''
apt-cache show bash
apt-get -s install hello
apt-config dump
aptitude search ~nbash$
groff -Tps -ms a.txt
cmake -S . -B cmake -G Ninja
ctest --version
ninja -f build.ninja
gperf a.gperf
swig4.0 -python -o a_wrap.c a.i
cppcheck a.cc
astyle -n a.cc
uncrustify -q -c - -f a.cc
re2c a.re
doxygen -g -
protoc --cpp_out=. a.proto
pdfinfo a.pdf
pdftotext a.pdf -
pdftoppm a.pdf
pdffonts a.pdf
qpdf --check a.pdf
exiv2 --version
mkvmerge -l
source-highlight -f html -i a.cc
gnuplot -e set\\ term\\ dumb;\\ plot\\ sin(x)
ledger -f a.dat balance
hunspell -d en_US -l a.txt
aspell -d en dump config
lzip -kf a.txt
plzip -kf a.txt
aria2c --version
lftp -c local\\ cat\\ a.txt
iverilog -o a.vvp a.v
yosys -q -p read_verilog\\ a.v
z3 a.smt2
minisat -verb=0 a.cnf
cbc a.lp solve
bedtools sort -i a.bed
7zz a a.7z a.txt
advzip -a a.zip a.txt
zpaq list
innoextract --version
par2 create -q -r10 a.par2 a.txt
xapian-metadata list xapian
osmium --version
proj -l
cs2cs -l
dcmdump --version
smartctl --scan
lshw -quiet -C system
rdfind -dryrun true -makeresultsfile false .
hashdeep -b a.txt a.cc
stockfish bench 16 1 6
xsdcxx cxx-tree a.xsd
xalan -in a.xml -xsl a.xsl
jsonnet a.jsonnet
kak -version
rocksdb_ldb --db=rocks --create_if_missing put a b
ldb --db=ldb --create_if_missing put a b
povray +Ia.pov +Oa.png -D -GA W80 H60
tesseract --version
gdb -batch -ex print\\ 1+1
lldb --batch -o version
clang-format a.cc
clang-tidy a.cc --
clang++ -O2 -c -o a.o a.cc
g++ -O2 -c -o a.o a.cc
node -e let\\ a=[];for(let\\ i=0;i<1e5;i++)a.push({i})
mpd --version
ncmpc --version
dnsdist --version
pdns_recursor --version
kea-dhcp4 -W
znc --version
mosh-server -v
searchd --help
btop --version
'''


def run(words, env):
    """(status, what the library said) of a program in a new folder."""
    with tempfile.TemporaryDirectory(prefix='salloc-cxx-') as folder:
        for name, text in INPUTS.items():
            with open(os.path.join(folder, name), 'w', encoding='utf-8') as file:
                file.write(text)
        try:
            done = subprocess.run(words, cwd=folder, env=dict(env, HOME=folder), stdin=subprocess.DEVNULL,
                                  capture_output=True, timeout=SECONDS, check=False)
        except subprocess.TimeoutExpired:
            return 'does not end', []
    return done.returncode, re.findall(r'^salloc: (?!  ).*$', done.stderr.decode(errors='replace'), re.M)


def main():
    plain = dict(os.environ, LC_ALL='C')
    plain.pop('LD_PRELOAD', None)
    env = dict(plain, LD_PRELOAD=os.path.abspath(sys.argv[1]), **dict(word.split('=', 1) for word in sys.argv[2:]))
    ran, failed = [], 0
    for line in COMMANDS.strip().splitlines():
        words = [word.replace('\0', ' ') for word in line.replace('\\ ', '\0').split()]
        if not shutil.which(words[0], path=os.environ.get('PATH', '') + ':/usr/sbin:/usr/games'):
            continue
        words[0] = shutil.which(words[0], path=os.environ.get('PATH', '') + ':/usr/sbin:/usr/games')
        before, (status, said) = run(words, plain)[0], run(words, env)
        ran.append(os.path.basename(words[0]))
        if status != before or any(not text.startswith('salloc: sized free: ') for text in said):
            failed += 1
            print(f'{line}: status {status}, without the library {before}; {said}')
        elif said:
            print(f'{line}: {said}')
    if len(ran) < LEAST and not failed:
        print(f'skipped: only {len(ran)} programs are installed, of {" ".join(PACKAGES.split())}')
        return SKIPPED
    print(f'{len(ran) - failed} of {len(ran)} programs: {" ".join(ran)}')
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
