/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A node program with a cache of buffers whose sizes change from phase to phase. Buffers come from
 * malloc; node's own heap does not, and counts as live. Prints "over_live RSS LIVE", in bytes, a
 * line for each phase.
 *
 *   node node_cache.js [MIB PHASES]
 */
'use strict';

const limit = Number(process.argv[2] || 64) << 20;
const phases = Number(process.argv[3] || 16);
let state = 12345;

function below(n) {
    state = (Math.imul(state, 1103515245) + 12345) >>> 0;
    return Math.floor(state / 4294967296 * n);
}

const cache = new Map();
let live = 0;
for (let phase = 0; phase < phases; phase++) {
    const least = 64 + below(4000);
    for (let written = 0; written < limit;) {
        const buffer = Buffer.allocUnsafeSlow(least + below(least)).fill(1);
        const key = below(100000);
        live += buffer.length - (cache.get(key)?.length ?? 0);
        written += buffer.length;
        cache.delete(key);
        cache.set(key, buffer);
        while (live > limit) {
            const [oldest, value] = cache.entries().next().value;
            live -= value.length;
            cache.delete(oldest);
        }
    }
    if (global.gc) global.gc();
    const memory = process.memoryUsage();
    console.log('over_live', memory.rss, live + memory.heapTotal);
}
