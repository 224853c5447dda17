/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers and names as text. Numbers have the digits that `sallocctl report` prints. */

/* With so many decimals; a number that lies in the middle becomes even, as in C. toFixed rounds
 * such numbers up. */
function fixed(number, decimals) {
    const scale = 10 ** decimals, middle = number * scale;

    if (number * 4 % 1 === 0 && Math.abs(middle % 1) === 0.5)
        return (2 * Math.round(middle / 2) / scale).toFixed(decimals);
    return number.toFixed(decimals);
}

function formatBytes(bytes) {
    const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let unit = 0;

    for (; unit < 6 && Math.abs(bytes) >= 1023.95; unit++)
        bytes /= 1024;
    return isFinite(bytes) ? `${fixed(bytes, unit ? 1 : 0)} ${units[unit]}` : "unknown";
}

/* The size of blocks, of which small ones differ by less than a digit. */
function formatSize(bytes) {
    return bytes <= 0 ? "[not recorded]" : bytes <= 10240 ? `${bytes} B` : formatBytes(bytes);
}

/* 1234 as 1,234. */
function formatCount(number) {
    return isFinite(number) ? fixed(number, 0).replace(/\B(?=(\d{3})+$)/g, ",") : "unknown";
}

/* Units of time, in nanoseconds. */
const TIMES = new Map([["nanoseconds", 1], ["microseconds", 1e3], ["milliseconds", 1e6],
                       ["seconds", 1e9]]);

function formatNumber(number, unit) {
    if (TIMES.has(unit))
        return (number < 0 ? "-" : "") + formatTime(Math.abs(number) * TIMES.get(unit));
    return unit === "bytes" ? formatBytes(number) : formatCount(number);
}

/* "of what": with the unit, unless the number has it. name: of the metric. */
function formatAmount(number, unit, name = "objects") {
    const text = formatNumber(number, unit);

    if (unit === "bytes" || TIMES.has(unit))
        return text;
    return `${text} ` + (unit && unit !== "count" ? unit : !name.endsWith("objects") ? name
        : number === 1 ? "block" : "blocks");
}

function formatShare(value, all) {
    return (all ? fixed(100 * value / all, 1) : "0.0") + "%";
}

function formatInterval(interval, unit) {
    if (!interval)
        return "not known";
    return formatNumber(interval.low, unit) + " to " + formatNumber(interval.high, unit);
}

/* An interval in a cell: a unit that both ends have is there once. */
function formatRange(interval, unit) {
    if (interval.low === interval.high)
        return "exact";
    const [low, high] = [formatNumber(interval.low, unit), formatNumber(interval.high, unit)];
    const [number, ofLow] = low.split(" "), ofHigh = high.split(" ")[1];

    return `${ofLow === ofHigh ? number : low} to ${high}`;
}

function baseName(path) {
    return path.slice(path.lastIndexOf("/") + 1) || path;
}

/* What metrics of known names are; others are shown by name. */
const METRIC_TITLES = {
    inuse_space: "In use", inuse_objects: "Blocks in use",
    alloc_space: "Ever allocated", alloc_objects: "Blocks ever allocated",
    resident_space: "Resident", swapped_space: "Swapped", locked_space: "Locked",
    zero_space: "Resident zeros", space: "Space", objects: "Objects",
    allocated_space: "Allocated, freed later", allocated_objects: "Blocks allocated, freed later",
    deallocated_space: "Freed", deallocated_objects: "Blocks freed",
    censored_allocated_space: "Allocated, not freed",
    censored_allocated_objects: "Blocks allocated, not freed",
};

function metricTitle(metric) {
    return Object.hasOwn(METRIC_TITLES, metric.name) ? METRIC_TITLES[metric.name] : metric.name;
}
