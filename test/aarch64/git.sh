# SPDX-License-Identifier: Apache-2.0
# A small repository with fixed dates, looked at in several ways; runs in the guest, in /tmp/work.
set -e
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
export GIT_AUTHOR_DATE='1700000000 +0000' GIT_COMMITTER_DATE='1700000000 +0000'
git init -q -b main /tmp/work
cd /tmp/work
for part in json email http; do
    cp -r /usr/lib/python3.11/$part . 2>/dev/null || cp -r /usr/lib/python3*/$part .
    git add .
    git commit -q -m "add $part"
done
git rm -q -r json
git commit -q -m 'remove json'
git log --stat --format='%H %s'
git log -p | cksum
git repack -q -a -d
git fsck --full
git diff --stat HEAD~2
