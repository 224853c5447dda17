/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The call tree: equal beginnings of stacks are one node; inverted: equal ends. Nodes are numbered
 * parents first, and stacks are in the order of the tree, so the stacks of a node are a range. Node
 * 0 is the root. What a node holds is then the difference of two sums.
 */

class Tree {
    constructor(profile, inverted) {
        this.profile = profile;
        this.inverted = inverted;
        this.order = Int32Array.from({length: profile.stackCount}, (_, i) => i);
        this.order.sort((a, b) => this.compare(a, b));
        this.build();
    }

    frameAt(stack, depth) {
        const {stackBegin, stackFrames} = this.profile;

        return stackFrames[this.inverted ? stackBegin[stack + 1] - 1 - depth
                                         : stackBegin[stack] + depth];
    }

    depthOf(stack) {
        return this.profile.stackBegin[stack + 1] - this.profile.stackBegin[stack];
    }

    compare(a, b) {
        const least = Math.min(this.depthOf(a), this.depthOf(b));

        for (let i = 0; i < least; i++) {
            const order = this.frameAt(a, i) - this.frameAt(b, i);

            if (order)
                return order;
        }
        return this.depthOf(a) - this.depthOf(b);
    }

    build() {
        const {profile, order} = this, most = profile.stackFrames.length + 1;
        const path = new Int32Array(profile.depth + 1), lastChild = new Int32Array(most);
        let nodes = 1, depth = 0;

        for (const field of ["frame", "parent", "begin", "end", "child", "sibling", "level"])
            this[field] = new Int32Array(most);
        this.frame[0] = this.parent[0] = -1;
        this.end[0] = order.length;
        for (let at = 0; at < order.length; at++) {
            const stack = order[at], wanted = this.depthOf(stack);
            let common = 0;

            while (common < depth && common < wanted &&
                   this.frame[path[common + 1]] === this.frameAt(stack, common))
                common++;
            for (; depth > common; depth--)
                this.end[path[depth]] = at;
            for (; depth < wanted; depth++) {
                const node = nodes++, parent = path[depth];

                this.frame[node] = this.frameAt(stack, depth);
                this.parent[node] = parent;
                this.begin[node] = at;
                this.level[node] = depth + 1;
                if (lastChild[parent])
                    this.sibling[lastChild[parent]] = node;
                else
                    this.child[parent] = node;
                lastChild[parent] = node;
                path[depth + 1] = node;
            }
        }
        for (; depth > 0; depth--)
            this.end[path[depth]] = order.length;
        this.nodeCount = nodes;
    }

    /* Takes the sums of all stacks, for another metric or filter. */
    setSums(stackSums) {
        const {order} = this, n = order.length, {cells, stride} = stackSums;

        this.stackSums = stackSums;
        this.sums = stackSums.inTree.map((column) => {
            const sums = new Float64Array(n + 1);

            for (let at = 0; at < n; at++)
                sums[at + 1] = sums[at] + cells[order[at] * stride + column];
            return sums;
        });
        this.widths = new Float64Array(n + 1);
        for (let at = 0; at < n; at++)
            this.widths[at + 1] =
                this.widths[at] + Math.abs(this.sums[0][at + 1] - this.sums[0][at]);
        this.sorted = new Map();
        this.shape = this.findShape();
    }

    /* The deepest level that holds something. */
    findShape() {
        let deepest = 0;

        for (let at = 0; at < this.order.length; at++)
            if (this.sums[0][at + 1] !== this.sums[0][at])
                deepest = Math.max(deepest, this.depthOf(this.order[at]));
        return {deepest};
    }

    difference(column, node) {
        return this.sums[column][this.end[node]] - this.sums[column][this.begin[node]];
    }

    value(node) {
        return this.difference(0, node);
    }

    /* What the stacks of the node hold, whatever the sign, as that of a difference. */
    width(node) {
        return this.widths[this.end[node]] - this.widths[this.begin[node]];
    }

    /* Whether chance may explain what the node holds. */
    isWeak(node) {
        return this.difference(4, node) === 0 &&
            this.profile.isWeak(this.difference(1, node), this.difference(2, node),
                                this.difference(3, node));
    }

    /* Exact sums, for intervals. */
    sumsOf(node) {
        const table = this.stackSums.like(1);

        for (let at = this.begin[node]; at < this.end[node]; at++)
            table.add(0, this.stackSums, this.order[at]);
        return table.get(0);
    }

    /* What the node holds without its children. */
    self(node) {
        let at = this.begin[node];

        while (at < this.end[node] && this.depthOf(this.order[at]) === this.level[node])
            at++;
        return this.sums[0][at] - this.sums[0][this.begin[node]];
    }

    /* Where the node's function is, and its lines in the stacks that hold something. */
    sources(node) {
        const {profile} = this, depth = this.level[node] - 1, places = new Set();

        for (let at = this.begin[node]; node && at < this.end[node]; at++) {
            const stack = this.order[at], {stackBegin} = profile;

            if (!this.stackSums.isEmpty(stack))
                places.add(profile.stackPlaces[this.inverted ? stackBegin[stack + 1] - 1 - depth
                                                             : stackBegin[stack] + depth]);
        }
        return [...places].map((place) => profile.sourceOf(place)).filter(Boolean).sort();
    }

    /* The children that hold something, the largest first. */
    children(node) {
        let list = this.sorted.get(node);

        if (!list) {
            list = [];
            for (let child = this.child[node]; child; child = this.sibling[child])
                if (this.width(child) > 0)
                    list.push(child);
            if (list.length > 1)
                list.sort((a, b) => this.width(b) - this.width(a) || a - b);
            this.sorted.set(node, list);
        }
        return list;
    }

    name(node) {
        return node ? this.profile.names[this.profile.nameOf[this.frame[node]]] || "[unknown]"
                    : "all";
    }

    library(node) {
        return node ? this.profile.libraries[this.profile.libraryOf[this.frame[node]]] : "";
    }

    /* The nodes from the root to this one. */
    path(node) {
        const list = [];

        for (; node >= 0; node = this.parent[node])
            list.push(node);
        return list.reverse();
    }

    /* The node of the same frames in another tree of the same order, or as many of them as hold
     * something. */
    find(frames) {
        let node = 0;

        for (const frame of frames) {
            const next = this.children(node).find((child) => this.frame[child] === frame);

            if (next === undefined)
                break;
            node = next;
        }
        return node;
    }
}
