#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the source of page.h's constants: the page with its style and its script in place.

usage: embed.py OUT PAGE.html STYLE.css... SCRIPT.js...
Comments are left out. The page's policy allows nothing but this style and this script, by their hashes.
"""
import base64
import hashlib
import re
import sys


def without_comments(text):
    """Without the comments that begin a line, and without empty lines."""
    text = re.sub(r'^[ ]*/\*.*?\*/[ ]*\n', '', text, flags=re.S | re.M)
    return re.sub(r'\n\n+', '\n', text).strip() + '\n'


def read(path):
    with open(path, encoding='utf-8') as f:
        return f.read()


def policy_hash(text):
    return "'sha256-%s'" % base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def array(name, text):
    data = text.encode()
    rows = [', '.join(map(str, data[at:at + 24])) for at in range(0, len(data), 24)]
    return 'const char %s[] = {\n    %s};\nconst size_t %s_bytes = sizeof(%s);\n' % (name, ',\n    '.join(rows), name, name)


def main(out, page, *parts):
    page = re.sub(r'\A(?:<!--.*?-->\s*)+', '', read(page), flags=re.S)
    style, script = (''.join(without_comments(read(path)) for path in parts if path.endswith(ending)) for ending in ('.css', '.js'))
    script = '"use strict";\n' + script
    if '</script' in script or '<!--' in script or '</style' in style:
        sys.exit('embed.py: the script or the style would end too early')
    for name, text in (('style-hash', policy_hash(style)), ('script-hash', policy_hash(script)),
                       ('style', style), ('script', script)):
        if page.count('{{%s}}' % name) != 1:
            sys.exit('embed.py: the page needs one {{%s}}' % name)
        page = page.replace('{{%s}}' % name, text)
    head, tail = page.split('{{profile}}')
    with open(out, 'w', encoding='ascii') as f:
        f.write('#include "tool/page/page.h"\n\n%s\n%s' % (array('sa_page_head', head), array('sa_page_tail', tail)))


if __name__ == '__main__':
    main(*sys.argv[1:])
