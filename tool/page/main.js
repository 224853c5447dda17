/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The page: its state, and what changes it. A change calls one of the refresh functions, which draw
 * what depends on it. Text from the profile gets into the page as text only, never as HTML.
 */

const element = (id) => document.getElementById(id);
const data = JSON.parse(element("profile").textContent);
if (data.moments)
    prepareMoments(data);
const profile = new Profile(data);
const moments = data.moments ? new Moments(profile) : null;
const trees = []; /* callees, callers: made when first shown */

const state = {
    metric: profile.data.shown,
    filter: {...NO_FILTER},
    inverted: false,
    byChange: false, /* of a comparison: what the width of frames is */
    rows: "functions", /* of the table */
    zoom: 0, focus: 0, hover: -1, focusShown: false, /* nodes of the tree */
    moment: 0, /* of a time line */
    query: "",
    chosen: null, /* the row of the table that is highlighted: {rows, key, title} */
    isFrame: null, /* what is highlighted */
};
let stackSums, tree, hueOf, all;
let tableRows = {}; /* by what they are; made when first shown */

const comparison = profile.data.compared ? new Comparison(profile) : null;
const flame = new FlameView(element("area"), element("canvas"), element("sizer"));
const outline = new Outline(element("area"), element("outline"));
const table = comparison
    ? new ChangeTable(element("table"), element("more"), chooseRow, comparison)
    : new TableView(element("table"), element("more"), chooseRow);

const metricOf = () => profile.metrics[state.metric];
const amount = (value) => formatAmount(value, metricOf().unit, metricOf().name);

function isWeakSums(sums) {
    return profile.isSampled(state.metric) && !sums.unknown &&
        profile.isWeak(sums.samples, sums.solid, sums.bytes);
}

const timeLine = moments && new TimeLine(moments, showMoment, (node) => zoomTo(node));

/* A node in one line, for screen readers. */
function describe(node) {
    if (comparison)
        return `${tree.name(node)}: ${comparison.lines(tree, node).join(", ")}`;
    const sums = tree.sumsOf(node), weak = isWeakSums(sums) ? ", chance may explain it" : "";

    return `${tree.name(node)}: ${amount(sums.value)}, ${formatShare(sums.value, all.value)}, ` +
        intervalText(sums, node === 0) + weak;
}

/* ---- What depends on the numbers ---- */

function refreshNumbers() {
    const frames = tree ? tree.path(state.zoom).slice(1).map((node) => tree.frame[node]) : [];

    stackSums = profile.stackSums(state.metric, state.filter);
    if (comparison)
        stackSums.setWeights(state.byChange);
    all = sumOfStacks(profile, stackSums, null);
    if (comparison)
        comparison.setNumbers(state.metric, all);
    tableRows = {};
    refreshTree(frames);
    refreshTotal();
    refreshLegend();
    refreshBands();
}

/* Shows another moment of the time line; the frames that are zoomed stay. */
function showMoment(moment) {
    state.moment = moment;
    moments.apply(moment);
    refreshNumbers();
    setUpTitle();
}

/* What the time line shows: other bands only if something else than the moment has changed. */
function refreshBands() {
    if (!timeLine)
        return;
    const key = [state.metric, state.zoom, state.inverted, JSON.stringify(state.filter)].join();

    if (key !== timeLine.key)
        timeLine.setBands(tree, state.zoom, state.metric, state.filter);
    timeLine.key = key;
    timeLine.setMoment(state.moment);
}

/* Shows the tree of the order, zoomed to these frames. */
function refreshTree(frames) {
    const which = Number(state.inverted);

    tree = trees[which] ||= new Tree(profile, state.inverted);
    tree.setSums(stackSums);
    hueOf ||= huesOf(profile, tree);
    flame.setPaint(comparison && comparison.paint(flame));
    state.zoom = state.focus = tree.find(frames);
    state.hover = -1;
    hideTip();
    flame.unit = metricOf().unit;
    flame.setTree(tree, hueOf);
    refreshFound();
    refreshGraph();
}

function refreshGraph() {
    element("reset").hidden = state.zoom === 0;
    flame.draw(state);
    outline.show(tree, state.focus, describe);
}

function legendItem(text, title, color) {
    const item = document.createElement("li");

    item.textContent = text;
    item.title = title;
    item.style.setProperty("--swatch", color);
    return item;
}

function refreshLegend() {
    const items = [];

    if (comparison) {
        element("legend").replaceChildren(...comparison.legend(flame)
            .map(([text, color]) => legendItem(text, "", color)));
        return;
    }

    for (let hue = 0; hue <= HUES; hue++) {
        const library = hueOf.indexOf(hue), path = hue < HUES ? profile.libraries[library] : "";

        if (library >= 0)
            items.push(legendItem(path ? baseName(path) : "others", path,
                                  flame.palette[hue * SHADES]));
    }
    element("legend").replaceChildren(...items);
}

/* ---- What is highlighted ---- */

function refreshFound() {
    const {query, chosen} = state, input = element("search");
    let found = null, text = "";

    input.removeAttribute("aria-invalid");
    try {
        if (query)
            found = findNames(profile, matcherOf(query));
        else if (chosen)
            found = findRow(profile, chosen);
    } catch (error) {
        input.setAttribute("aria-invalid", "true");
        text = error.message;
    }
    state.isFrame = found && found.isFrame;
    if (found) {
        const sums = sumOfStacks(profile, stackSums, stacksWith(profile, found.isPlace));
        const what = query ? `${formatCount(found.count)} function${found.count === 1 ? "" : "s"}`
                           : chosen.label;

        text = comparison ? comparison.foundText(what, sums)
            : `${what}: ${amount(sums.value)} (${formatShare(sums.value, all.value)}), ` +
                intervalText(sums, Boolean(query));
    }
    element("found").textContent = text;
    element("found").title = text;
    element("clear").hidden = !found;
    refreshTable(query && found ? found.isName : null);
}

function refreshTable(isName) {
    const {rows, metric, filter, chosen} = state;
    const heads = {functions: "Function", lines: "Line", libraries: "Library", sizes: "Size",
                   threads: "Thread", lives: "Lifetime"};
    const isFilter = ["sizes", "threads", "lives"].includes(rows);
    const lists = {functions: () => functionRows(profile, stackSums),
                   lines: () => lineRows(profile, stackSums),
                   libraries: () => libraryRows(profile, stackSums),
                   sizes: () => sizeRows(profile, metric, filter),
                   threads: () => threadRows(profile, metric, filter),
                   lives: () => lifeRows(profile, metric, filter)};
    const list = tableRows[rows] ||= lists[rows]();

    for (const button of element("tabs").children)
        button.ariaPressed = String(button.dataset.rows === rows);
    /* Of sizes, threads and lifetimes there is what the filter leaves out, too. */
    const sum = isFilter
        ? list.reduce((total, row) => total + row.total, 0) : all.value;
    table.set(rows === "functions" && isName ? list.filter((row) => isName[row.key]) : list, {
        head: heads[rows], unit: metricOf().unit, all: sum, isWeak: isWeakSums,
        sampled: profile.isSampled(metric), flat: !isFilter, lives: Boolean(data.lives),
        isChosen: (row) => rows === "sizes" ? filter.least === filter.most &&
                               filter.least === profile.sizes[row.key]
            : rows === "threads" ? filter.thread === row.key
            : rows === "lives" ? filter.decade === row.decade
            : Boolean(chosen) && chosen.rows === rows && chosen.key === row.key});
}

/* A row of the table was clicked: functions, lines and libraries are highlighted, sizes and threads
 * are filters. Again: as before. */
function chooseRow(row) {
    const again = table.info.isChosen(row), {filter} = state;

    if (state.rows === "sizes") {
        const bytes = profile.sizes[row.key];

        setSize(again ? 0 : bytes, again ? Infinity : bytes);
    } else if (state.rows === "threads") {
        filter.thread = again || row.key === profile.data.threads.length ? -1 : row.key;
        element("thread").value = filter.thread;
        refreshNumbers();
    } else if (state.rows === "lives") {
        filter.decade = again ? null : row.decade;
        refreshNumbers();
    } else {
        state.query = element("search").value = "";
        state.chosen = again ? null : {rows: state.rows, ...row};
        refreshFound();
        flame.draw(state);
    }
}

function setSize(least, most) {
    const select = element("size"), value = `${least} ${most}`;

    Object.assign(state.filter, {least, most});
    select.value = value;
    if (select.value !== value)
        select.add(new Option(formatSize(least), value, false, true));
    refreshNumbers();
}

/* ---- Zoom and focus ---- */

function zoomTo(node) {
    state.zoom = state.focus = node;
    flame.area.scrollTop = Math.min(flame.area.scrollTop, tree.level[node] * ROW);
    refreshGraph();
    refreshBands();
}

function focusOn(node) {
    state.focus = node;
    state.focusShown = true;
    if (!tree.path(node).includes(state.zoom))
        state.zoom = node;
    flame.reveal(node);
    refreshGraph();
    showTip(node);
}

function clearFound() {
    state.query = element("search").value = "";
    state.chosen = null;
    refreshFound();
    flame.draw(state);
}

/* ---- Controls ---- */

function addOptions(select, options) {
    select.replaceChildren(...options.map(([text, value]) => new Option(text, value)));
}

/* Ranges of sizes: powers of two. */
function sizeOptions() {
    const options = [["all", "0 Infinity"]], {sizes} = profile;

    for (let most = 64, least = 1; least <= Math.max(0, ...sizes); most *= 4) {
        if (sizes.some((size) => size >= least && size <= most))
            options.push([`${formatSize(least)} to ${formatBytes(most)}`, `${least} ${most}`]);
        least = most + 1;
    }
    return options;
}

function timeText(ms) {
    const time = new Date(ms > 0 ? ms : NaN);

    return isNaN(time) ? "" : time.toISOString().slice(0, 16).replace("T", " ") + " UTC";
}

function setUpTitle() {
    const {data} = profile, title = data.program || data.file, {compared} = data;
    const about = [data.file, timeText(data.time), data.tool];

    document.title = `${title}: ${comparison ? "what changed" : "heap profile"}`;
    element("program").textContent = title + (comparison ? ": what changed" : "");
    if (comparison)
        about.unshift(compared.file, timeText(compared.time), "→");
    element("about").textContent = about.filter(Boolean).join(" · ").replace("· → ·", "→");
}

function setUpComparison() {
    for (const id of ["width-label", "part"])
        element(id).hidden = !comparison;
    if (!comparison)
        return;
    document.body.classList.add("comparison");
    element("keys").textContent =
        "Arrow keys move, Enter zooms, Escape goes back, / searches.";
    element("width").addEventListener("change", (event) => {
        state.byChange = event.target.value === "change";
        refreshNumbers();
    });
    element("part").addEventListener("click", (event) => {
        if (!event.target.dataset.part)
            return;
        table.flat = event.target.dataset.part === "flat";
        for (const button of element("part").children)
            button.ariaPressed = String(button === event.target);
        refreshFound();
    });
}

function setUpControls() {
    const {data} = profile;

    setUpTitle();
    setUpComparison();
    element("comments").replaceChildren(...data.comments.map((text) => {
        const item = document.createElement("li");

        item.textContent = text;
        return item;
    }));
    document.querySelector("footer").hidden = !data.comments.length;
    addOptions(element("metric"), profile.metrics.map((m, i) => [metricTitle(m), i]));
    element("metric").value = state.metric;
    addOptions(element("thread"), [["all", -1], ...data.threads.map((name, i) => [name, i])]);
    element("thread-label").hidden = !data.threads.length;
    addOptions(element("size"), sizeOptions());
    element("size-label").hidden = !profile.sizes.some((size) => size > 0);
    for (const button of element("tabs").children)
        button.hidden = button.dataset.rows === "threads" && !data.threads.length ||
            button.dataset.rows === "lines" && data.files.length < 2 ||
            button.dataset.rows === "sizes" && element("size-label").hidden ||
            button.dataset.rows === "lives" && !data.lives;
}

function setTheme(dark) {
    document.documentElement.dataset.theme = dark ? "dark" : "light";
    element("theme").ariaPressed = String(dark);
    flame.setTheme();
    if (tree) {
        refreshLegend();
        flame.draw(state);
        refreshBands();
    }
}

function setInverted(inverted) {
    if (state.inverted === inverted)
        return;
    state.inverted = inverted;
    element("callees").ariaPressed = String(!inverted);
    element("callers").ariaPressed = String(inverted);
    if (!comparison)
        table.by = inverted ? "flat" : "total";
    flame.area.scrollTop = 0;
    refreshTree([]);
    refreshBands();
}

function onKey(event) {
    const node = nodeByKey(tree, state.focus, state.zoom, event.key);

    if (event.ctrlKey || event.metaKey || event.altKey)
        return;
    if (node !== null)
        focusOn(node);
    else if (event.key === "Enter" || event.key === " ")
        zoomTo(state.focus);
    else if (!event.key.startsWith("Arrow"))
        return;
    event.preventDefault();
}

/* Anywhere: / searches, Escape goes back one step. */
function onPageKey(event) {
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);

    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey) {
        element("search").focus();
        element("search").select();
        event.preventDefault();
    } else if (event.key === "Escape") {
        hideTip();
        if (state.isFrame || state.query)
            clearFound();
        else if (state.zoom)
            zoomTo(tree.parent[state.zoom]);
    }
}

function setUpEvents() {
    const {area} = flame, dark = matchMedia("(prefers-color-scheme: dark)");

    const at = (event) => {
        const around = area.getBoundingClientRect();

        return flame.hit(event.clientX - around.left, event.clientY - around.top);
    };
    area.addEventListener("mousemove", (event) => {
        const box = at(event), node = box ? box.node : -1;

        if (node !== state.hover) {
            state.hover = node;
            area.style.cursor = node >= 0 ? "pointer" : "";
            flame.draw(state);
        }
        if (node >= 0)
            showTip(node, event.clientX, event.clientY);
        else
            hideTip();
    });
    area.addEventListener("mouseleave", () => {
        state.hover = -1;
        hideTip();
        flame.draw(state);
    });
    area.addEventListener("mousedown", () => { state.focusShown = false; });
    area.addEventListener("click", (event) => {
        const box = at(event);

        if (box)
            zoomTo(box.node < 0 ? box.of : box.node);
    });
    area.addEventListener("keydown", onKey);
    area.addEventListener("focus", () => {
        state.focusShown = area.matches(":focus-visible");
        refreshGraph();
    });
    area.addEventListener("blur", () => {
        state.focusShown = false;
        hideTip();
        flame.draw(state);
    });
    area.addEventListener("scroll", () => flame.draw(state));
    new ResizeObserver(() => flame.draw(state)).observe(area);
    document.addEventListener("keydown", onPageKey);
    element("controls").addEventListener("submit", (event) => event.preventDefault());
    element("metric").addEventListener("change", (event) => {
        state.metric = Number(event.target.value);
        refreshNumbers();
    });
    element("thread").addEventListener("change", (event) => {
        state.filter.thread = Number(event.target.value);
        refreshNumbers();
    });
    element("size").addEventListener("change", (event) => {
        setSize(...event.target.value.split(" ").map(Number));
    });
    element("search").addEventListener("input", (event) => {
        state.query = event.target.value;
        state.chosen = null;
        refreshFound();
        flame.draw(state);
    });
    element("tabs").addEventListener("click", (event) => {
        if (event.target.dataset.rows) {
            state.rows = event.target.dataset.rows;
            refreshFound();
        }
    });
    element("callees").addEventListener("click", () => setInverted(false));
    element("callers").addEventListener("click", () => setInverted(true));
    element("reset").addEventListener("click", () => zoomTo(0));
    element("clear").addEventListener("click", clearFound);
    element("theme").addEventListener("click",
        () => setTheme(document.documentElement.dataset.theme !== "dark"));
    dark.addEventListener("change", () => setTheme(dark.matches));
    setTheme(dark.matches);
}

setUpControls();
setUpEvents();
if (moments)
    showMoment(moments.peak(state.metric));
else
    refreshNumbers();
performance.mark("shown");
