// SPDX-License-Identifier: GPL-2.0-or-later
// Reads a Chrome trace with no code of sonde's and prints what is in it as one JSON object; exits 1 with
// the reasons where it breaks a rule: UTF-8, required members, slices of a lane in order of time and
// nested in doubles as a viewer computes them, lanes with one name, counters and instants with a time.
//   node trace-check.mjs FILE
import { readFileSync } from 'node:fs';

const bytes = readFileSync(process.argv[2]);
const text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
const trace = JSON.parse(text);
const bad = [];
const wrong = (what) => bad.length < 20 && bad.push(what);
const ns = (us) => BigInt(Math.round(us * 1000));

const lanes = new Map(), names = new Map(), processes = new Map();
const sums = {}, counts = {}, counters = {}, parts = {};
let instants = 0, longest = 0;

if (!['ns', 'ms'].includes(trace.displayTimeUnit)) wrong('displayTimeUnit');
for (const e of trace.traceEvents) {
	if (!Number.isInteger(e.pid) || !Number.isInteger(e.tid)) wrong(`pid or tid of ${e.name}`);
	if (typeof e.name !== 'string' || !e.name.length) wrong(`an event without a name at ${e.ts}`);
	for (const c of e.name) {
		const p = c.codePointAt(0);
		if ((p < 0x20 && c !== '\n' && c !== '\t') || (p >= 0xd800 && p < 0xe000)) wrong('a control character');
	}
	longest = Math.max(longest, Buffer.byteLength(JSON.stringify(e)));
	if (e.ph === 'M') {
		if (e.name === 'thread_name') {
			const key = `${e.pid}/${e.tid}`;
			if (names.has(key)) wrong(`lane ${key} is named twice`);
			names.set(key, e.args.name);
		} else if (e.name === 'process_name') processes.set(e.pid, e.args.name);
		continue;
	}
	if (!(Number.isFinite(e.ts) && e.ts >= 0)) wrong(`time of ${e.name}`);
	if (e.ph === 'X') {
		if (!(Number.isFinite(e.dur) && e.dur >= 0)) wrong(`duration of ${e.name}`);
		const key = `${e.pid}/${e.tid}`;
		if (!lanes.has(key)) lanes.set(key, []);
		lanes.get(key).push(e);
		counts[e.cat] = (counts[e.cat] ?? 0) + 1;
		if (!e.args?.end) sums[e.cat] = (sums[e.cat] ?? 0n) + ns(e.dur);
		if (e.cat !== 'query') parts[e.name] = (parts[e.name] ?? 0n) + ns(e.dur);
		if (e.cat === 'query' && e.args?.duration_ns !== undefined && ns(e.dur) !== BigInt(e.args.duration_ns))
			wrong(`duration_ns ${e.args.duration_ns} is drawn as ${ns(e.dur)}`);
	} else if (e.ph === 'C') {
		counters[e.name] = (counters[e.name] ?? 0) + 1;
		for (const v of Object.values(e.args)) if (!Number.isFinite(v)) wrong(`value of ${e.name}`);
	} else if (e.ph === 'i') instants++;
	else wrong(`phase ${e.ph}`);
}

// From 0 and from the lane's first time: viewers do the one or the other.
function nested(key, slices, shift) {
	const open = [];
	let last = -1;
	for (const e of slices) {
		const begin = e.ts - shift, end = begin + e.dur;
		if (begin < last) wrong(`lane ${key}: ${e.name} at ${e.ts} is out of order`);
		last = begin;
		while (open.length && open.at(-1).end <= begin) open.pop();
		if (open.length && end > open.at(-1).end)
			wrong(`lane ${key}: ${e.name} at ${e.ts} is longer than ${open.at(-1).name} around it`);
		if (e.cat === 'query' && open.length) wrong(`lane ${key}: queries overlap at ${e.ts}`);
		if (e.cat !== 'query' && !open.length) wrong(`lane ${key}: ${e.name} at ${e.ts} is in no query`);
		if (e.dur > 0) open.push({ name: e.name, end });
	}
}
for (const [key, slices] of lanes) {
	if (!names.has(key)) wrong(`lane ${key} has no name`);
	if (!processes.has(slices[0].pid)) wrong(`process ${slices[0].pid} has no name`);
	nested(key, slices, 0);
	nested(key, slices, slices[0].ts);
}

const out = { bytes: bytes.length, lanes: lanes.size, counts, sums, parts, counters, instants, longest,
	names: [...names.values()], processes: [...processes.values()], other: trace.otherData };
console.log(JSON.stringify(out, (k, v) => (typeof v === 'bigint' ? Number(v) : v)));
for (const what of bad) console.error(`trace-check: ${what}`);
process.exit(bad.length ? 1 : 0);
