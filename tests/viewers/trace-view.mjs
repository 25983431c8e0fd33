// SPDX-License-Identifier: GPL-2.0-or-later
// Opens a Chrome trace in headless Chromium, in the viewers that people use, and prints what they made of
// it as one JSON object: the browser's own performance panel, chrome://tracing and speedscope. Everything is
// served from 127.0.0.1; NODE_PATH names where playwright-core and speedscope are installed.
//   node trace-view.mjs FILE OUTDIR VIEWER...      a screenshot of each goes to OUTDIR/VIEWER.png
import { createRequire } from 'node:module';
import { createServer } from 'node:http';
import { readFileSync, existsSync } from 'node:fs';
import { join, dirname, resolve, extname } from 'node:path';

const [file, out, ...viewers] = process.argv.slice(2);
const require = createRequire(join(process.env.NODE_PATH ?? '.', 'x.js'));
const { chromium } = require(join(process.env.NODE_PATH, 'playwright-core'));
const speedscope = join(process.env.NODE_PATH, 'speedscope', 'dist', 'release');
const types = { '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css', '.wasm': 'application/wasm',
	'.json': 'application/json' };

const server = createServer((req, res) => {
	const path = new URL(req.url, 'http://x').pathname;
	const name = path === '/trace.json' ? file : resolve(join(speedscope, path));
	if (path !== '/trace.json' && (!name.startsWith(speedscope) || !existsSync(name))) return res.writeHead(404).end();
	res.writeHead(200, { 'content-type': types[extname(path)] ?? 'application/octet-stream',
		'access-control-allow-origin': '*' });
	res.end(readFileSync(name));
});
await new Promise((done) => server.listen(0, '127.0.0.1', done));
const here = `http://127.0.0.1:${server.address().port}`;

const browser = await chromium.launch({
	executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', headless: true,
	args: ['--no-sandbox', '--headless=new', '--remote-debugging-port=0', '--remote-allow-origins=*'],
	ignoreDefaultArgs: ['--headless'],
});
const page_of = async () => {
	const page = await (await browser.newContext({ viewport: { width: 1400, height: 900 } })).newPage();
	page.said = [];
	page.on('console', (m) => ['error', 'warning'].includes(m.type()) && page.said.push(m.text()));
	page.on('pageerror', (e) => page.said.push(String(e)));
	return page;
};

const look = {
	// Its importer, its profiles (one a lane), and the totals of one of them.
	async speedscope() {
		const page = await page_of();
		await page.addInitScript(() => { window.alert = (m) => console.error(m); });
		await page.goto(`${here}/index.html#profileURL=${encodeURIComponent(`${here}/trace.json`)}`);
		await page.waitForFunction(() => /\(1\/\d+\)|\d+\/\d+/.test(document.body.innerText), null, { timeout: 60000 });
		const text = await page.evaluate(() => document.body.innerText);
		await page.screenshot({ path: join(out, 'speedscope.png') });
		await page.keyboard.press('2');
		await page.waitForTimeout(500);
		await page.screenshot({ path: join(out, 'speedscope-heavy.png') });
		return { text: text.slice(0, 400), said: page.said };
	},
	async tracing() {
		const page = await page_of();
		await page.goto('chrome://tracing');
		await page.waitForSelector('tr-ui-timeline-view, profiling-view', { state: 'attached', timeout: 30000 });
		const json = readFileSync(file, 'utf8');
		const made = await page.evaluate(async (text) => {
			const view = document.querySelector('profiling-view');
			await view.setActiveTrace('trace.json', text);
			const model = view.timelineView_.model;
			let slices = 0, queries = 0, sum = 0;
			for (const t of model.getAllThreads()) for (const s of t.sliceGroup.slices) {
				slices++;
				if (s.category === 'query') { queries++; if (!s.args.end) sum += Math.round(s.duration * 1e6); }
			}
			return { slices, queries, sum, threads: model.getAllThreads().length,
				counters: model.getAllCounters().length, instants: model.instantEvents.length,
				warnings: model.importWarnings.map((w) => `${w.type}: ${w.message}`),
				errors: model.hasImportWarnings };
		}, json);
		await page.waitForTimeout(1500);
		await page.screenshot({ path: join(out, 'tracing.png') });
		return { ...made, said: page.said };
	},
};

const result = {};
try {
	for (const v of viewers) result[v] = await look[v]();
} finally {
	await browser.close();
	server.close();
}
console.log(JSON.stringify(result));
