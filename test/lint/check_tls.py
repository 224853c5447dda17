#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Static TLS is scarce for libraries that are loaded later: at most 64 bytes, reached without a call
(__tls_get_addr may allocate).
usage: check_tls.py ROOT LIBRARY
"""
import re
import sys

import lint

MOST = 64


def main(root, library):
    findings = lint.Findings()
    del root
    sizes = [int(m.group(1), 16) for m in re.finditer(
        r'^\s*TLS\s+0x\w+ 0x\w+ 0x\w+ 0x\w+ 0x(\w+)', lint.output('readelf', '-lW', library), re.M)]
    if len(sizes) != 1:
        findings.add(library, None, '%d TLS segments, expected 1' % len(sizes))
    elif sizes[0] > MOST:
        findings.add(library, None, 'TLS segment of %d bytes, at most %d' % (sizes[0], MOST))
    if '__tls_get_addr' in lint.dynamic_symbols(library, undefined=True):
        findings.add(library, None, 'calls __tls_get_addr')
    findings.finish('TLS of %s bytes' % sizes)


if __name__ == '__main__':
    main(*sys.argv[1:])
