#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Turns a list of names of system calls into the numbers of those that the architecture has, as elements of a C array.

usage: names.py LIST > HEADER"""
import sys

with open(sys.argv[1], encoding="utf-8") as file:
    names = [name for line in file if not line.startswith("#") for name in line.split()]
for name in names:
    print(f"#ifdef SYS_{name}\n    SYS_{name},\n#endif")
